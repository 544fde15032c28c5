package page

import "time"

// Reasons returns sentences that say in plain words why a packet went no further, by the
// name of the reason.
func Reasons() map[string]string {
	return map[string]string{
		"no_route":      "no route leads to its destination",
		"blackhole":     "a blackhole route swallowed it",
		"neigh_missing": "the tunnel device knows no neighbour for the next hop",
		"neigh_failed":  "no host on the segment answered for the next hop",
		"fdb_missing":   "the tunnel device does not know on which host that neighbour is",
		"fdb_conflict":  "it came from another host than the forwarding entry says",
		"vni_mismatch":  "no tunnel device there has its network number",
		"too_big":       "it is larger than the link takes",
		"ttl":           "it went in a circle until its time to live ran out",
		"wire_loss":     "the wire lost it",
		"wire_down":     "the wire is cut",
		"wire_mtu":      "the wire silently drops packets of its size",
		"partition":     "the network is partitioned",
		"mac_unknown":   "no link on the segment has the address it was sent to",
		"link_down":     "the link is down",
		"no_carrier":    "the cable is unplugged",
		"no_listener":   "no tunnel listens there",
		"not_mine":      "it reached a host that it is not for",
		"rp_filter":     "the host does not believe its source address",
		"bad_source":    "the tunnel's own address is not one of the host's",
		"loop":          "it would loop within the host",
		"reassembly":    "fragments of it are missing",
		"malformed":     "it is damaged",
		"timeout":       "no answer came in time",
		"unreachable":   "probes do not arrive",
		"silent":        "probes are not answered",
		"answer_lost":   "probes arrive, and the answers are lost",
		"unknown":       "the kernel does not say why",
	}
}

// Span returns a time in microseconds as text, with a fitting unit.
func Span(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < time.Millisecond:
		return d.String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
