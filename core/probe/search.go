package probe

import "github.com/flanneld/flannel/core/cidr"

// minSizes holds the sizes of packets that every IP network carries, by family
// (RFC 791, RFC 8200).
var minSizes = [2]int{cidr.V4: 576, cidr.V6: 1280}

// search finds the largest size of a packet that passes.
type search struct {
	passes int // the largest size that has passed; 0: none yet
	lost   int // the smallest size that was lost
	size   int // to try next
	known  int // the size that passed at the last examination; 0: none did
}

// newSearch begins a search below a size that was lost. Known is a size that passed
// at the last examination, or 0.
func newSearch(f cidr.Family, lost, known int) *search {
	s := &search{lost: lost, size: min(minSizes[f], lost-1)}
	if known > 0 && known < lost {
		s.size, s.known = known, known
	}
	return s
}

// learn records the fate of a packet of the size to try. It returns true if the
// search has ended.
func (s *search) learn(passed bool) (ended bool) {
	if passed {
		s.passes = s.size
	} else {
		s.lost = s.size
	}
	switch {
	case s.lost <= SmallSize:
		return true // a small packet has passed, and none of these
	case s.passes+1 >= s.lost:
		return true
	case s.passes == 0:
		s.size = max(SmallSize, s.lost/2)
	case s.passes == s.known:
		s.size++ // most likely this one is lost, as the last time
	default:
		s.size = (s.passes + s.lost) / 2
	}
	return false
}
