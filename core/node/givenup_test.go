package node

import (
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

const udpConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`

// A daemon starts with vxlan after a run with udp, and cannot open the device of udp's packet path any more.
func TestPreviousBackendThatTheHostLacks(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuse  map[string]error // by device
		givesUp bool
	}{
		{"no such device", map[string]error{"flannel0": driver.ErrUnsupported}, true},
		{"no right to it", map[string]error{"flannel0": driver.ErrDenied}, true},
		{"another process has it", map[string]error{"flannel0": driver.ErrBusy}, false},
		{"the present way is refused too",
			map[string]error{"flannel0": driver.ErrUnsupported, "flannel.1": driver.ErrUnsupported}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := afterUDP(t, c.refuse)
			w.pass(time.Minute)
			w.tell()
			w.pass(time.Minute)
			if ready := w.n.Status().Ready; ready != c.givesUp || w.count("backend-given-up") > 1 {
				t.Errorf("ready %t, want %t, and one line at most:\n%s", ready, c.givesUp, w.log())
			}
			if keeps := w.n.transition.Set().Has(udpID); keeps == c.givesUp {
				t.Errorf("keeps udp: %t, want %t", keeps, !c.givesUp)
			}
			if _, has := w.host.Links["flannel0"]; has == c.givesUp {
				t.Errorf("the host has flannel0: %t, want %t", has, !c.givesUp)
			}
		})
	}
}

const udpID = `{"Type":"udp"}`

// The node does not try a backend again that it has given up, and tries it when the config names it.
func TestPreviousBackendStaysGivenUp(t *testing.T) {
	w := afterUDP(t, map[string]error{"flannel0": driver.ErrUnsupported})
	w.pass(time.Minute)
	w.wantReady()
	if w.count("backend-given-up") != 1 {
		t.Errorf("want one line:\n%s", w.log())
	}
	w.configure(udpConfig)
	w.pass(time.Minute)
	if r := strings.Join(w.n.Status().Reasons, "; "); !strings.Contains(r, "flannel0") {
		t.Errorf("not ready because of %q, want flannel0", r)
	}
	w.applyErr = nil
	w.pass(time.Minute)
	w.wantReady()
	w.configure(vxlanConfig)
	w.pass(time.Second)
	if !w.n.transition.Set().Has(udpID) {
		t.Errorf("the node has udp again, but does not keep it for the peer that has nothing else:\n%s", w.log())
	}
}

// afterUDP returns a world in which a daemon with udp was ready, and another has started with vxlan, whose host
// refuses what belongs to some devices.
func afterUDP(t *testing.T, refuse map[string]error) *world {
	w := newWorld(t, udpConfig)
	w.tell()
	w.pass(time.Second)
	w.tell()
	w.wantReady()
	w.host.Proxies = dataplane.NewState().Proxies // it ends with the process
	w.start()
	w.refuse(refuse)
	w.configure(vxlanConfig)
	return w
}

// refuse makes the host refuse to make devices and packet paths.
func (w *world) refuse(by map[string]error) {
	w.applyErr = func(op dataplane.Op) error {
		switch op.Object.(type) {
		case dataplane.Link, dataplane.Proxy:
			if op.Verb != dataplane.Delete {
				return by[deviceOf(op.Object)]
			}
		}
		return nil
	}
}
