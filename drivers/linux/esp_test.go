package linux

import (
	"errors"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/driver"
)

// A kernel without ESP is told from one that has it, and the error names the remedy.
func TestTryESP(t *testing.T) {
	for range 2 { // the first leaves nothing behind
		err := TryESP()
		named := errors.Is(err, driver.ErrUnsupported) && strings.Contains(err.Error(), "modprobe xfrm_user esp4")
		if err != nil && !named {
			t.Error(err)
		}
	}
}
