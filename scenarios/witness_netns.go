package scenarios

import (
	"strings"
	"time"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/scenarios/report"
)

// watchedWorld is a real world that is looked at whenever it is waited for.
type watchedWorld struct {
	World
	rec *witness
}

// lookPause is how often at most: a look asks every daemon and kernel.
const lookPause = 100 * time.Millisecond

// Until implements [World].
func (w *watchedWorld) Until(within time.Duration, cond func() error) error {
	return w.World.Until(within, func() error {
		if now := time.Now(); now.Sub(w.rec.looked) > lookPause {
			w.rec.look(w.rec.now())
			w.rec.tellLogs()
			w.rec.looked = time.Now()
		}
		return cond()
	})
}

// Ping implements [World]. The packet is followed through all devices.
func (w *watchedWorld) Ping(from, to string, o PingOptions) (PingResult, error) {
	at := w.rec.now()
	o.Follow = true
	r, err := w.World.Ping(from, to, o)
	if err == nil {
		w.rec.tellProbe(at, from, to, r)
	}
	return r, err
}

// tellProbe tells what became of a packet between pods, by their names.
func (r *witness) tellProbe(at time.Duration, from, to string, p PingResult) {
	probe := report.Probe{From: strings.TrimSuffix(from, ".pod"), To: strings.TrimSuffix(to, ".pod"), OK: p.OK,
		Drop: p.Drop, Where: p.Where, Detail: p.Detail}
	if p.OK && p.Source.IsValid() && p.Source != p.WantSource {
		probe.Source = p.Source.String()
	}
	r.Probe(at, probe, p.Way)
}

// wayOf is what devices saw of a packet and its answer, as a report tells it.
func wayOf(to string, way []harness.Sighting, loss *harness.Loss) []report.Hop {
	if len(way) == 0 && loss == nil {
		return nil
	}
	var hops []report.Hop
	frame := ""
	after := func(at time.Time) int64 { return at.Sub(way[0].At).Microseconds() }
	for _, s := range way {
		h := report.Hop{After: after(s.At), Where: s.Host, What: "in " + s.Device}
		if s.Frame != frame {
			frame, h.Detail = s.Frame, s.Frame // else as it was
		}
		switch {
		case s.Out:
			h.What = "out " + s.Device
		case s.Other:
			h.What = "not for " + s.Device
		}
		if s.Answer != "" {
			h.What = s.Answer + " " + h.What
		}
		hops = append(hops, h)
		if s.Host == to && s.Answer == "" && !s.Out {
			hops = append(hops, report.Hop{After: h.After, Where: s.Host, What: "arrive"})
		}
	}
	if loss != nil {
		h := report.Hop{Where: loss.Host, What: "drop", Detail: loss.Reason + " " + loss.Detail}
		if len(way) > 0 {
			h.After = after(way[len(way)-1].At)
		}
		hops = append(hops, h)
	}
	return hops
}
