package lang

import (
	"strings"
	"time"

	"github.com/flanneld/flannel/internal/page"
)

// watchedWorld is a world without a [Telling], at which the witness looks during
// every wait.
type watchedWorld struct {
	World
	rec *Witness
}

// lookPause is the shortest time between looks: a look asks every daemon and kernel.
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

// Ping implements [World]. It follows the packet through all devices.
func (w *watchedWorld) Ping(from, to string, o PingOptions) (PingResult, error) {
	at := w.rec.now()
	o.Follow = true
	r, err := w.World.Ping(from, to, o)
	if err == nil {
		w.rec.tellProbe(at, from, to, r)
	}
	return r, err
}

// tellProbe records the fate of a packet between two named pods.
func (r *Witness) tellProbe(at time.Duration, from, to string, p PingResult) {
	probe := page.Probe{From: strings.TrimSuffix(from, ".pod"), To: strings.TrimSuffix(to, ".pod"), OK: p.OK,
		Drop: p.Drop, Where: p.Where, Detail: p.Detail}
	if p.OK && p.Source.IsValid() && p.Source != p.WantSource {
		probe.Source = p.Source.String()
	}
	r.Probe(at, probe, p.Way)
}
