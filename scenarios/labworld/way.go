package labworld

import (
	"time"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/page"
)

// wayOf returns the path of a packet and its answer through devices, for a report.
func wayOf(to string, way []harness.Sighting, loss *harness.Loss) []page.Hop {
	if len(way) == 0 && loss == nil {
		return nil
	}
	var hops []page.Hop
	frame := ""
	after := func(at time.Time) int64 { return at.Sub(way[0].At).Microseconds() }
	for _, s := range way {
		h := page.Hop{After: after(s.At), Where: s.Host, What: "in " + s.Device}
		if s.Frame != frame {
			frame, h.Detail = s.Frame, s.Frame // otherwise the frame is unchanged
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
			hops = append(hops, page.Hop{After: h.After, Where: s.Host, What: "arrive"})
		}
	}
	if loss != nil {
		h := page.Hop{Where: loss.Host, What: "drop", Detail: loss.Reason + " " + loss.Detail}
		if len(way) > 0 {
			h.After = after(way[len(way)-1].At)
		}
		hops = append(hops, h)
	}
	return hops
}
