package udppath

// Reason says why a packet went no further; the zero value, Passed, means that it
// did.
type Reason uint8

// The reasons.
const (
	Passed      Reason = iota
	Truncated          // fewer bytes than a header, or than the header says
	NotIPv4            // another version in the first four bits
	BadHeader          // header longer than the packet, or shorter than a header
	BadChecksum        // the header's checksum is wrong
	BadOffload         // the vnet header does not fit the packet
	NoRoute            // no lease holds the destination
	TTL                // the TTL would reach zero here
	TooBig             // larger than the tunnel, and not to be fragmented
	Foreign            // no lease holds the source
	Spoofed            // the lease that holds the source belongs to another host
	NotOurs            // the destination is outside the node's own subnet
	Reasons     int    = iota
)

// String returns the name of the counter.
func (r Reason) String() string {
	switch r {
	case Passed:
		return "passed"
	case Truncated:
		return "truncated"
	case NotIPv4:
		return "not_ipv4"
	case BadHeader:
		return "bad_header"
	case BadChecksum:
		return "bad_checksum"
	case BadOffload:
		return "bad_offload"
	case NoRoute:
		return "no_route"
	case TTL:
		return "ttl"
	case TooBig:
		return "too_big"
	case Foreign:
		return "foreign"
	case Spoofed:
		return "spoofed"
	case NotOurs:
		return "not_ours"
	}
	return "unknown"
}

// Counters hold the number of packets by reason. A packet that is still to be cut
// counts once.
type Counters [Reasons]uint64

// Add adds the counters of another path, to sum those of all loops.
func (c *Counters) Add(o Counters) {
	for i, n := range o {
		c[i] += n
	}
}
