package udppath

// Reason says why a packet went no further. The zero value, Passed, says that
// it did.
type Reason uint8

// The reasons, each with the name under which it is counted.
const (
	Passed      Reason = iota
	Truncated          // fewer bytes than a header, or than the header says
	NotIPv4            // another version in the first four bits
	BadHeader          // header longer than the packet, or shorter than a header
	BadChecksum        // the header's checksum is wrong
	BadOffload         // what the kernel says beside the packet does not fit it
	NoRoute            // no lease holds the destination
	TTL                // would have reached zero here
	TooBig             // larger than the tunnel, and not to be fragmented
	Foreign            // no lease holds the source
	Spoofed            // the lease that holds the source belongs to another host
	NotOurs            // arrived here with a destination outside the own subnet
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

// Counters hold the number of packets by what became of them. A packet from
// which the kernel expects several counts once.
type Counters [Reasons]uint64

// Add adds the counters of another path, to sum those of all loops.
func (c *Counters) Add(o Counters) {
	for i, n := range o {
		c[i] += n
	}
}
