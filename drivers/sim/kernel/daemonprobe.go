package kernel

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/probe"
)

// echoHeaders holds the size of the headers before the data of an echo, by family.
var echoHeaders = [2]int{cidr.V4: 28, cidr.V6: 48}

// Probe sends a probe of package probe as real packets. It calls done once with the
// result, perhaps before it returns.
func (p *Process) Probe(r probe.Request, done func(probe.Answer)) {
	s := p.host.stack
	o := PingOptions{Timeout: probe.Timeout, DF: r.Kind == probe.Large}
	switch {
	case s.isLocal(r.From):
		o.Src = r.From
	case r.From.IsValid() && !r.FromOptional:
		done(probe.Answer{ID: r.ID})
		return
	}
	o.data = probe.Magic
	if r.Host {
		o.data = probe.HostMagic
	}
	o.Size = r.Size - echoHeaders[cidr.FamilyOf(r.To)]
	o.then = func(sent *Probe) {
		done(probe.Answer{
			ID: r.ID, OK: sent.Delivered, RTT: max(sent.RTT, time.Nanosecond), TooBig: sent.Drop == DropTooBig,
		})
	}
	if r.Kind == probe.Connect {
		s.connect(r.To, probe.ClosedPort, o)
		return
	}
	s.ping(r.To, o)
}

// Heard returns the probes of daemons that have arrived on the host since a time, by
// sender.
func (p *Process) Heard(since time.Time) []probe.Heard {
	var heard []probe.Heard
	s := p.host.stack
	for _, from := range slices.SortedFunc(maps.Keys(s.heard), netip.Addr.Compare) {
		if at := s.heard[from]; !at.Before(since) {
			heard = append(heard, probe.Heard{From: from, At: at})
		}
	}
	return heard
}

// hear notes that a probe of a daemon has arrived.
func (s *stack) hear(from netip.Addr, data []byte) {
	if !strings.HasPrefix(string(data[:min(len(data), len(probe.Magic))]), probe.Magic) {
		return
	}
	if s.heard == nil {
		s.heard = map[netip.Addr]time.Time{}
	}
	s.heard[from] = s.world.Now()
}
