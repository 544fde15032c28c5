package linearizable

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// behindServers returns clients of two simulated servers, which restart, lose the datastore or the clients,
// are slow, and lose answers.
func behindServers() func(*world.World, *store.Store, string) Asker {
	var servers []*store.Server
	return func(w *world.World, s *store.Store, name string) Asker {
		if servers == nil {
			servers = []*store.Server{s.NewServer("server1"), s.NewServer("server2")}
			for i, srv := range servers {
				troubled(w, srv, w.Rand("trouble of "+strconv.Itoa(i)))
			}
		}
		return s.Client(name, store.ClientOptions{Servers: servers})
	}
}

// troubled breaks a server now and then.
func troubled(w *world.World, srv *store.Server, rng *rand.Rand) {
	w.After(time.Duration(rng.Int64N(int64(4*time.Second))), "play: trouble of a server", func() {
		f := store.ServerFaults{SlowBy: 100 * time.Millisecond, LoseAnswer: 0.05}
		switch rng.IntN(8) {
		case 0:
			srv.Stop()
		case 1:
			f.Cut = true
		case 2:
			f.Parted = true
		case 3:
			f.SlowBy = 7 * time.Second
		default:
			srv.Start()
		}
		srv.SetFaults(f)
		troubled(w, srv, rng)
	})
}

// TestSimulatedServers checks histories of clients of two simulated servers.
func TestSimulatedServers(t *testing.T) {
	asked, unknown := 0, 0
	for seed := range *seeds {
		h := playInto(&History{ByRecord: true}, seed, behindServers())
		if got, why := h.Check(patience); got != porcupine.Ok {
			t.Fatalf("seed %d: %s\n%s", seed, got, why)
		}
		asked += h.Len()
		unknown += h.Unknown()
	}
	t.Logf("%d histories, %d requests, %d of unknown outcome", *seeds, asked, unknown)
}
