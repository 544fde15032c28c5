package alloc

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
)

// A span is a run of subnets of a range, by their numbers from its Min, both
// ends included. A range may hold 2^126 subnets, so this package counts them in
// spans and never lists them.
type span struct {
	first, last cidr.Uint128
}

func (s span) size() cidr.Uint128 { return s.last.Sub(s.first).Add(cidr.From64(1)) }

// spansOf returns the subnets of the range that the prefixes touch, sorted by
// their first. A prefix may be shorter or longer than the range's subnets, since
// the config may have changed, or lie outside in part.
func spansOf(r config.Range, prefixes []netip.Prefix) []span {
	end := cidr.Last(netip.PrefixFrom(r.Max, r.SubnetLen))
	number := func(a netip.Addr) cidr.Uint128 { return cidr.Count(r.Min, a, r.SubnetLen).Sub(cidr.From64(1)) }
	var spans []span
	for _, p := range prefixes {
		first, last := p.Masked().Addr(), cidr.Last(p)
		if first.Less(r.Min) {
			first = r.Min
		}
		if end.Less(last) {
			last = end
		}
		if !last.Less(first) {
			spans = append(spans, span{number(first), number(last)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.first.Cmp(b.first) })
	return spans
}

// gapsBetween returns the runs of subnets, out of count, between the sorted
// spans, and the number of subnets in these runs.
func gapsBetween(count cidr.Uint128, spans []span) (gaps []span, free cidr.Uint128) {
	one := cidr.From64(1)
	var next cidr.Uint128 // the first subnet not yet considered
	add := func(end cidr.Uint128) {
		if next.Cmp(end) < 0 {
			g := span{next, end.Sub(one)}
			gaps, free = append(gaps, g), free.Add(g.size())
		}
	}
	for _, s := range spans {
		add(s.first)
		if after := s.last.Add(one); next.Cmp(after) < 0 {
			next = after
		}
	}
	add(count)
	return gaps, free
}

// below draws a number less than n, which is not 0. It draws numbers of n's bit
// length until one fits, which takes less than two draws on average and favours
// none.
func below(n cidr.Uint128, rng *rand.Rand) cidr.Uint128 {
	spare := 128 - n.Sub(cidr.From64(1)).Len()
	for {
		draw := cidr.Uint128{Hi: rng.Uint64(), Lo: rng.Uint64()}.Shr(spare)
		if draw.Cmp(n) < 0 {
			return draw
		}
	}
}
