package check

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
)

// mostProbes is the number of packets of one examination of a peer. Each may wait for its answer.
const mostProbes = 8

// freshFor returns the age up to which the last examination of a peer says something about now: three examinations
// may come late. With many peers they come less often than the interval says.
func (f *Facts) freshFor() time.Duration {
	ways := 0
	for _, p := range f.Peers {
		ways += len(p.Ways)
	}
	const late = 3
	interval := max(f.Status.Probes.Interval, time.Duration(ways)*mostProbes*time.Second/probe.Rate)
	return late * (interval + mostProbes*probe.Timeout)
}

// ages are those of the examinations behind a finding.
type ages struct {
	known            bool
	youngest, oldest time.Duration
}

// age returns the time since the last examination on a way, by the daemon's clock; false: it is not known.
func (f *Facts) age(w node.Way) (time.Duration, bool) {
	if f.Status.TakenAt.IsZero() || w.Probe.At.IsZero() {
		return 0, false
	}
	return max(0, f.Status.TakenAt.Sub(w.Probe.At)), true
}

// add counts the examination on a way.
func (a *ages) add(age time.Duration, known bool) {
	switch {
	case !known:
		return
	case !a.known:
		*a = ages{true, age, age}
	}
	a.youngest, a.oldest = min(a.youngest, age), max(a.oldest, age)
}

// String says how long ago the probes were, in brackets; empty: it is not known.
func (a ages) String() string {
	from, to := a.youngest.Round(time.Second), a.oldest.Round(time.Second)
	switch {
	case !a.known:
		return ""
	case from == to:
		return fmt.Sprintf(" (probed %s ago)", to)
	}
	return fmt.Sprintf(" (probed %s to %s ago)", from, to)
}

// stale is the finding about peers whose last examination is too long ago to say anything about now.
func (f *Facts) stale() []Finding {
	var old []netip.Addr
	var since ages
	for _, p := range f.Peers {
		for _, w := range p.Ways {
			if !f.isStale(w) {
				continue
			}
			since.add(f.age(w))
			if !slices.Contains(old, addressOf(p)) {
				old = append(old, addressOf(p))
			}
		}
	}
	if len(old) == 0 {
		return nil
	}
	return []Finding{{Level: Warning, Topic: "peers", Remedy: "flannelctl ping --mtu " + old[0].String(),
		Text: fmt.Sprintf("whether %s answers now is not known: the last probes are too old for that%s", named(old), since)}}
}

// isStale reports whether the last examination on a way is too long ago.
func (f *Facts) isStale(w node.Way) bool {
	if w.Probe == nil || w.Probe.Finding == probe.Unknown {
		return false
	}
	age, known := f.age(w)
	return known && age > f.freshFor()
}
