package complaint_test

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/internal/complaint"
)

func TestOf(t *testing.T) {
	const first, later = "dial tcp 10.0.0.1:2379: port 40123: refused", "dial tcp 10.0.0.1:2379: port 9: refused"
	if complaint.Of(first) != complaint.Of(later) {
		t.Errorf("%q and %q differ", complaint.Of(first), complaint.Of(later))
	}
	if complaint.Of(first) == complaint.Of("dial tcp 10.0.0.1:2379: no route") {
		t.Error("another error is the same reason")
	}
}

func TestTold(t *testing.T) {
	var told complaint.Told
	for _, c := range []struct {
		text string
		want bool
	}{{"a: refused", true}, {"b: silent", true}, {"a: refused", false}, {"b: silent", false}, {"b: refused", true}} {
		if got := told.IsNew(c.text); got != c.want {
			t.Errorf("%s is new: %v, want %v", c.text, got, c.want)
		}
	}
	told.Forget()
	if told.Any() || !told.IsNew("a: refused") || !told.Any() {
		t.Error("not forgotten")
	}
	for i := range 1000 {
		told.IsNew(strings.Repeat("x", i))
	}
	if told.IsNew("one more") {
		t.Error("the reasons are not bounded")
	}
}
