package linux

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestIPIPMissing asks a kernel without ipip for a tunnel. Kernels with ipip, such as that of make test-vm, skip it.
func TestIPIPMissing(t *testing.T) {
	w := newWorld(t)
	if hasIPIP(t, w) == nil {
		t.Skip("this kernel has ipip")
	}
	tunnel := dataplane.Link{Name: "flannel.ipip", Up: true,
		Params: dataplane.IPIP{Local: netip.MustParseAddr("192.0.2.1")}}
	err := w.d.Apply(t.Context(), []dataplane.Op{{Verb: dataplane.Create, Object: tunnel}})[0]
	remedy := "the kernel has no links of type ipip; run: modprobe ipip"
	if !errors.Is(err, driver.ErrUnsupported) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("error %v", err)
	}
}
