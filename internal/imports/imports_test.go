package imports

import (
	"slices"
	"testing"
)

func TestOwn(t *testing.T) {
	own, err := Own("../../core/lease")
	if err != nil || !slices.Contains(own, "core/cidr") || slices.Contains(own, "core/node") {
		t.Errorf("core/lease imports %q, %v", own, err)
	}
	if _, err := Own("../nowhere"); err == nil {
		t.Error("a folder without Go files has no error")
	}
}
