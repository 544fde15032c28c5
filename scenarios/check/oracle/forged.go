package oracle

import (
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// partForged returns the records that no other program has forged, and all others. What a node has on its host for a
// forged record is not judged: the oracle demands that it has all else. The same holds for a record that overlaps an
// older forged one: of the two only the older one counts (interop E7: overlapping leases), if a node can serve that at
// all.
func (h Host) partForged(records []lease.Lease) (honest, forged []lease.Lease) {
	if len(h.Forged) == 0 {
		return records, nil
	}
	var written []lease.Lease
	for _, r := range records {
		if slices.ContainsFunc(h.Forged, func(f lease.Lease) bool { return f.Key == r.Key }) {
			written = append(written, r)
		}
	}
	for _, r := range records {
		counts := func(f lease.Lease) bool {
			return f.Key == r.Key || f.CreateRevision < r.CreateRevision && f.Key.Overlaps(r.Key)
		}
		if slices.ContainsFunc(written, counts) {
			forged = append(forged, r)
		} else {
			honest = append(honest, r)
		}
	}
	return honest, forged
}

// besideForged leaves out the texts about objects that tell of a forged record: of its subnet, or of its device, unless
// a node has that device.
func (d Demand) besideForged(short []string) []string {
	if len(d.host.Forged) == 0 {
		return short
	}
	var words []string
	for _, r := range d.host.Forged {
		for _, f := range cidr.Families {
			if p := r.Key.Of(f); p.IsValid() {
				words = append(words, p.String(), p.Addr().String())
			}
			if ip := r.Attrs.IP(f); ip.IsGlobalUnicast() {
				words = append(words, ip.String())
			}
		}
	}
	words = append(words, devicesIn(d.host.Forged)...)
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" || slices.Contains(d.honest, w) })
	known := func(word string) bool { return slices.Contains(words, word) }
	return slices.DeleteFunc(short, func(text string) bool {
		return slices.ContainsFunc(strings.FieldsFunc(text, between), known)
	})
}

// between reports whether a character stands between the words of an object's text.
func between(r rune) bool { return r == ' ' || r == ',' || r == '-' }

// DevicesIn returns the MAC addresses and keys in a record, those of previous backends included.
func DevicesIn(r lease.Lease) []string { return devicesIn([]lease.Lease{r}) }

// devicesIn returns the MAC addresses and keys in records, those of previous backends included.
func devicesIn(records []lease.Lease) []string {
	var all []string
	for _, r := range records {
		for _, former := range r.Attrs.Ways.Former {
			data := lease.Attrs{BackendData: former.Data, BackendV6Data: former.V6Data}
			all = append(all, devicesIn([]lease.Lease{{Key: r.Key, Attrs: data}})...)
		}
		for _, f := range cidr.Families {
			all = append(all, VTEPMAC(r, f))
			if key, _, ok := wireGuardHalf(r, f == cidr.V4); ok {
				all = append(all, key.String())
			}
		}
	}
	return all
}
