package linearizable

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

var seeds = flag.Uint64("seeds", 300, "the number of histories of the simulated store to check")

// patience bounds the search for an order. It takes milliseconds for these short
// histories; a longer search proves nothing, and the test fails.
const patience = time.Minute

// honest returns the client without a defect.
func honest(_ *world.World, s *store.Store, name string) Asker {
	return s.Client(name, store.ClientOptions{})
}

func TestSimulatedStore(t *testing.T) {
	asked, unknown := 0, 0
	for seed := range *seeds {
		h := Play(seed, honest)
		if got, why := h.Check(patience); got != porcupine.Ok {
			t.Fatalf("seed %d: %s\n%s", seed, got, why)
		}
		asked += h.Len()
		unknown += h.Unknown()
	}
	t.Logf("%d histories, %d requests, %d of unknown outcome", *seeds, asked, unknown)
}

// TestPlantedDefects checks that a few seeds find each defect of a store.
func TestPlantedDefects(t *testing.T) {
	for name, defect := range map[string]func(planted, node.Request) (node.Requested, bool){
		"update is a blind put (E5)": planted.blindUpdate,
		"create ignores who has it":  planted.greedyCreate,
		"release deletes any record": planted.blindRelease,
		"renew does nothing":         planted.idleRenew,
		"move ignores who has it":    planted.greedyMove,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				h := Play(seed, func(w *world.World, s *store.Store, name string) Asker {
					return planted{s.Client(name, store.ClientOptions{}), w, s, defect}
				})
				switch got, _ := h.Check(patience); got {
				case porcupine.Illegal:
					t.Logf("found by seed %d", seed)
					return
				case porcupine.Unknown:
					t.Fatalf("seed %d: no verdict within %s", seed, patience)
				}
			}
			t.Error("not found")
		})
	}
}

// planted is a client whose server does one thing wrong.
type planted struct {
	*store.Client
	world  *world.World
	store  *store.Store
	defect func(planted, node.Request) (node.Requested, bool)
}

func (p planted) Do(req node.Request, done func(node.Requested)) {
	p.world.After(time.Millisecond, "planted defect", func() {
		if r, ours := p.defect(p, req); ours {
			done(r)
			return
		}
		p.Client.Do(req, done)
	})
}

func (p planted) put(key lease.Key, req node.Request) (node.Requested, bool) {
	if err := p.store.Put("subnets/"+key.String(), string(lease.EncodeAttrs(req.Attrs)), req.TTL); err != nil {
		return node.Requested{Err: err}, true
	}
	for _, l := range p.store.Snapshot().Leases {
		if l.Key == key {
			return node.Requested{Grant: lease.Grant{Lease: *l, TTL: req.TTL}}, true
		}
	}
	panic(fmt.Sprintf("%s was put and is not there", key))
}

func (p planted) blindUpdate(req node.Request) (node.Requested, bool) {
	if req.Verb != node.Update {
		return node.Requested{}, false
	}
	return p.put(req.Grant.Key, req)
}

func (p planted) greedyCreate(req node.Request) (node.Requested, bool) {
	if req.Verb != node.Create {
		return node.Requested{}, false
	}
	return p.put(req.Key, req)
}

func (p planted) greedyMove(req node.Request) (node.Requested, bool) {
	if req.Verb != node.Move {
		return node.Requested{}, false
	}
	if err := p.store.Delete("subnets/" + req.Grant.Key.String()); err != nil {
		return node.Requested{Err: err}, true
	}
	return p.put(req.Key, req)
}

func (p planted) blindRelease(req node.Request) (node.Requested, bool) {
	if req.Verb != node.Release {
		return node.Requested{}, false
	}
	return node.Requested{Err: p.store.Delete("subnets/" + req.Grant.Key.String())}, true
}

func (p planted) idleRenew(req node.Request) (node.Requested, bool) {
	return node.Requested{Grant: req.Grant}, req.Verb == node.Renew
}
