package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// named returns a world whose network has a name, with all kinds of rules.
func named(t *testing.T) *world {
	w := newWorld(t, vxlanConfig, masquerading)
	w.firewall.bothFlavours()
	w.snap.History = 1
	w.decorate = func(v *lease.View) { v.Beside = &lease.Beside{} }
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	return w
}

func masquerading(o *Options) { o.Firewall = firewall.Options{Masquerade: true, Forward: true} }

// unconfigured lets another program delete the config while the node follows the datastore.
func (w *world) unconfigured() {
	w.absent()
	w.snap.Config.Deleted = true
}

// absent lets the datastore hold no config any more. No watch tells why.
func (w *world) absent() {
	w.rev++
	w.snap.Revision, w.snap.Config = w.rev, lease.Document{AbsentAt: w.rev}
}

// wantGone fails unless nothing of the network is left.
func (w *world) wantGone() {
	w.t.Helper()
	if w.exit == nil || !w.exit.Removed || w.exit.Status != 0 {
		w.t.Errorf("exit %+v, want that of a removed network; not ready: %v", w.exit, w.n.reasons())
	}
	if left := w.host.Dump() + w.firewall.chains.Dump(); left != "" {
		w.t.Errorf("left on the host:\n%s", left)
	}
	if len(w.files) > 0 {
		w.t.Errorf("files left: %v", w.files)
	}
}

// interop 3.9: a named network exists while its config does.
func TestRemovalOfNetwork(t *testing.T) {
	for name, remove := range map[string]func(*world){
		"its config":                      (*world).unconfigured,
		"its config, during an outage":    (*world).absent,
		"all its records":                 func(w *world) { w.unconfigured(); w.snap.Leases = nil },
		"its config, and later its lease": func(w *world) { w.unconfigured(); w.tell(); w.remove(w.own().Key) },
	} {
		t.Run(name, func(t *testing.T) {
			w := named(t)
			requests := len(w.requests)
			remove(w)
			w.tell()
			w.pass(10 * time.Second)
			w.wantGone()
			if len(w.requests) != requests {
				t.Errorf("requests for the lease: %v", w.requests[requests:])
			}
		})
	}
}

// A daemon that was down while its network was removed removes it at its next start.
func TestRemovalOfNetworkAtStart(t *testing.T) {
	w := named(t)
	w.absent()
	w.start(masquerading)
	w.tell()
	w.pass(10 * time.Second)
	w.wantGone()
}

// Objects that resist keep the state file, without which a restart would forget them.
func TestRemovalOfNetworkResisted(t *testing.T) {
	w := named(t)
	w.applyErr = func(op dataplane.Op) error {
		if strings.HasPrefix(op.Object.String(), "link") {
			return errors.New("device busy")
		}
		return nil
	}
	w.unconfigured()
	w.tell()
	w.pass(10 * time.Second)
	if _, subnet := w.files[SubnetFile]; w.exit != nil || subnet || w.files[StateFile] == "" {
		t.Errorf("exit %+v, files %v; want the state file alone", w.exit, w.files)
	}
	w.applyErr = nil
	w.start(masquerading)
	w.tell()
	w.pass(time.Minute)
	w.wantGone()
}

// A datastore that has lost its data has removed no network, and neither has one that
// does not answer. Without a name, the last config stays in force.
func TestNoRemovalOfNetwork(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"older data": func(w *world) { w.snap.Revision, w.snap.Config = 1, lease.Document{AbsentAt: 1} },
		"older data, which then changes": func(w *world) {
			w.snap.Revision, w.snap.Config = 1, lease.Document{AbsentAt: 1}
			w.tell()
			w.snap.Revision, w.snap.Config = 900, lease.Document{AbsentAt: 900}
		},
		"no data, past the config's revision": func(w *world) { w.absent(); w.snap.Leases = nil },
		"other peers' data, past the config's revision": func(w *world) {
			w.absent()
			w.remove(w.own().Key)
		},
		"the own record, written anew": func(w *world) {
			w.absent()
			anew := w.own()
			w.remove(anew.Key)
			anew.CreateRevision = 0
			w.put(anew)
		},
		"no data, first seen out of sync": func(w *world) {
			w.absent()
			own := w.own()
			w.remove(own.Key)
			w.loose = true
			w.tell()
			w.loose = false
			w.put(own)
		},
		"other data":      func(w *world) { w.unconfigured(); w.snap.History = 77 },
		"unreachable":     func(w *world) { w.unconfigured(); w.down = true },
		"the unnamed one": func(w *world) { w.unconfigured(); w.decorate = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := named(t)
			before := w.host.Dump()
			lose(w)
			w.tell()
			w.pass(10 * time.Second)
			if w.exit != nil || w.host.Dump() != before {
				t.Errorf("exit %+v, host:\n%s", w.exit, w.host.Dump())
			}
		})
	}
}

// A peer that took the node's subnet in a datastore that lost its data is not the node, even if its
// record has the revision of the node's former one.
func TestNoRemovalOfNetworkByRecordOfPeer(t *testing.T) {
	w := named(t)
	w.absent()
	anew := w.own()
	w.remove(anew.Key)
	anew.Attrs = vxlanPeer("10.5.3.0-24", 9).Attrs
	w.put(anew)
	w.tell()
	w.pass(10 * time.Second)
	if w.exit != nil || len(w.host.Links) != 1 {
		t.Errorf("exit %+v, host:\n%s", w.exit, w.host.Dump())
	}
}

// A datastore that lost its data while the daemon was down has removed no network either, not even if
// it has the same identity and its revision has passed that of the config.
func TestNoRemovalOfNetworkAtStart(t *testing.T) {
	for _, away := range []bool{false, true} { // the datastore at each start
		w := named(t)
		before := w.host.Dump()
		w.absent()
		w.remove(w.own().Key)
		for start := range 3 { // the later ones find the record of the one before
			w.start(masquerading)
			if away {
				w.down = true
				w.tell()
				w.pass(patience)
				w.down = false
			}
			w.tell()
			w.pass(10 * time.Second)
			if w.exit != nil || w.host.Dump() != before {
				t.Errorf("datastore away %t, start %d: exit %+v, host:\n%s", away, start, w.exit, w.host.Dump())
			}
		}
	}
}

// A network that the host cannot run beside others waits, and touches nothing. One that
// runs keeps its config.
func TestRefusedBesideOthers(t *testing.T) {
	var refusal error
	w := newWorld(t, vxlanConfig)
	w.decorate = func(v *lease.View) { v.Beside = &lease.Beside{Refused: refusal} }
	refusal = errors.New("both need a device flannel.1")
	w.tell()
	w.pass(time.Second)
	if got := w.n.reasons(); len(got) != 1 || got[0] != refusal.Error() || w.host.Dump() != "" {
		t.Errorf("reasons %q, host:\n%s", got, w.host.Dump())
	}
	refusal = nil
	w.tell()
	w.pass(time.Second)
	w.wantReady()

	before := w.host.Dump()
	refusal = errors.New("its addresses overlap")
	w.configure(strings.Replace(vxlanConfig, "10.5", "10.6", 1))
	w.pass(time.Second)
	if got := strings.Join(w.n.reasons(), "\n"); got != refusal.Error() || w.host.Dump() != before {
		t.Errorf("reasons %q, host:\n%s", got, w.host.Dump())
	}
}

// A network whose config does not fit on the host when it begins goes on with that of its former run, if that fits.
func TestRefusedConfigAtAStart(t *testing.T) {
	for _, resumes := range []bool{true, false} {
		w := named(t)
		w.rev++
		w.snap.Revision = w.rev
		w.snap.Config = lease.Document{Data: []byte(`{"Network":"10.6.0.0/16","Backend":{"Type":"udp"}}`), Revision: w.rev}
		w.decorate = func(v *lease.View) {
			v.Beside = &lease.Beside{Refused: errors.New("both need a device flannel0"), Resumes: resumes}
		}
		w.start(masquerading)
		w.tell()
		w.pass(time.Minute)
		if saved := w.count("config-saved") > 0; saved != resumes || w.n.network.known != resumes {
			t.Errorf("resumes %t: the config of the former run is in force: %t:\n%s", resumes, saved, w.log())
		}
		if _, has := w.host.Links["flannel.1"]; !has {
			t.Errorf("resumes %t: the node removed what the former run had:\n%s", resumes, w.log())
		}
	}
}

// A network that swaps what it has with others of the host removes it and begins anew. The datastore still holds its
// config, and its revision or identity may have changed since the former one came into force: the others wait.
func TestBeginsAnew(t *testing.T) {
	for name, change := range map[string]func(*world){
		"same datastore":               func(*world) {},
		"restored from a backup":       func(w *world) { w.snap.Revision, w.snap.Config.Revision = 2, 2 },
		"restored into another one":    func(w *world) { w.snap.History = 77 },
		"once the datastore is back":   func(w *world) { w.down = true; w.tell(); w.down = false },
		"before any config is known":   func(w *world) { w.files = map[File]string{}; w.start() },
		"at a start, by a former file": func(w *world) { w.start(masquerading) },
	} {
		t.Run(name, func(t *testing.T) {
			w := named(t)
			change(w)
			known := w.n.network.known || w.files[StateFile] != ""
			const why = "network blue cannot run on this host yet"
			w.decorate = func(v *lease.View) { v.Beside = &lease.Beside{Refused: errors.New(why), Resumes: true, Anew: true} }
			w.tell()
			if got := w.n.reasons(); w.exit == nil && !strings.HasPrefix(got[0], why+"; still to remove: ") {
				t.Errorf("reasons %q", got)
			}
			w.pass(10 * time.Second)
			if known {
				w.wantGone()
			} else if w.exit == nil || !w.exit.Removed {
				t.Errorf("exit %+v", w.exit)
			}
			if got := w.logged("network-removed"); known && (len(got) != 1 || !strings.HasPrefix(got[0], why+"; removing")) {
				t.Errorf("log %q", got)
			}
		})
	}
}
