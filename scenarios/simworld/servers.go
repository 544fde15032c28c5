package simworld

import (
	"fmt"
	"time"

	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/scenarios/lang"
)

var _ lang.Servers = (*World)(nil)

// Server implements [lang.Servers].
func (w *World) Server(name string) (lang.Server, error) {
	for i, srv := range w.servers {
		if lang.ServerName(i) == name {
			return simServer{srv}, nil
		}
	}
	return nil, fmt.Errorf("no %s: the topology has %d servers", name, len(w.servers))
}

// simServer adapts a simulated server to scenarios.
type simServer struct{ *store.Server }

func (s simServer) Stop(on bool) {
	if on {
		s.Server.Stop()
	} else {
		s.Start()
	}
}

func (s simServer) Cut(on bool)           { s.change(func(f *store.ServerFaults) { f.Cut = on }) }
func (s simServer) Part(on bool)          { s.change(func(f *store.ServerFaults) { f.Parted = on }) }
func (s simServer) Slow(by time.Duration) { s.change(func(f *store.ServerFaults) { f.SlowBy = by }) }
func (s simServer) LoseAnswers(probability float64) {
	s.change(func(f *store.ServerFaults) { f.LoseAnswer = probability })
}

func (s simServer) change(change func(*store.ServerFaults)) {
	f := s.Faults()
	change(&f)
	s.SetFaults(f)
}
