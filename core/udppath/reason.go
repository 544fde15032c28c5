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

// reasonNames are the names of the counters.
var reasonNames = [Reasons]string{
	"passed", "truncated", "not_ipv4", "bad_header", "bad_checksum", "bad_offload",
	"no_route", "ttl", "too_big", "foreign", "spoofed", "not_ours",
}

// String returns the name of the counter.
func (r Reason) String() string {
	if int(r) >= Reasons {
		return "unknown"
	}
	return reasonNames[r]
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

// Drops returns the numbers of packets that were dropped, by the name of each reason. A
// reason that has not occurred has the number 0.
func (c Counters) Drops() map[string]uint64 {
	drops := make(map[string]uint64, Reasons)
	for i, n := range c {
		if reason := Reason(i); reason != Passed {
			drops[reason.String()] = n
		}
	}
	return drops
}
