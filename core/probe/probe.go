package probe

import (
	"net/netip"
	"time"
)

// Kind is a kind of packet.
type Kind uint8

// The kinds.
const (
	Echo    Kind = iota // a small ICMP echo request
	Large               // an echo request of a given size that must not be fragmented
	Connect             // a TCP connection to ClosedPort
	kinds               // the number of kinds
)

var kindNames = [kinds]string{"echo", "large", "tcp"}

// String returns the kind in lower case.
func (k Kind) String() string { return kindNames[k] }

// ClosedPort is the TCP port of the service discard, which hosts do not offer any more
// (RFC 863). The kernel of a peer refuses the connection, which is as good an answer
// as a listener's.
const ClosedPort = 9

// Magic begins the data of each echo request, so that the daemon of the peer
// recognises the probe of another daemon.
const Magic = "flannel probe\n"

// HostMagic stands for Magic in an echo request that asks only whether the peer's host
// answers. It does not go by the way of pods' packets, so its arrival says nothing about
// that way. It begins as Magic does, and is as long.
const HostMagic = "flannel host \n"

// SmallSize is the size of a small echo: the IPv6 header, the ICMP header, the magic
// and its padding. It is used for IPv4 as well.
const SmallSize = 84

// Timeout is how long a probe waits for its answer.
const Timeout = 2 * time.Second

// Request asks to send one packet, and to report its fate soon after Timeout at the latest.
type Request struct {
	ID   uint64 // distinguishes the requests of a Prober
	Kind Kind
	From netip.Addr // the source; invalid: the kernel's choice
	// FromOptional means that the kernel chooses the source if the host does not have From.
	FromOptional bool
	To           netip.Addr
	Size         int // of the whole IP packet of an echo, in bytes
	// Host means that an echo asks the host of a silent peer, beside the way of pods'
	// packets. The daemon there must not hear it as a probe.
	Host bool
}

// Answer is the fate of a packet.
type Answer struct {
	ID  uint64
	OK  bool          // the peer answered
	RTT time.Duration // if it did
	// TooBig means that this host refused to send a packet of that size.
	TooBig bool
	// Unable says why no packet could be sent, for a reason that has nothing to do with
	// the peer, such as a missing permission. Empty: a packet was sent, or no route led
	// to the peer.
	Unable string
}

// Heard tells that a probe of another daemon has arrived.
type Heard struct {
	From netip.Addr
	At   time.Time
}

// Sender sends probes. Its methods may be called from any goroutine.
type Sender interface {
	// Send sends the packet and calls done once, soon after Timeout at the latest, from
	// any goroutine, also before it returns. It does not block. After Close it may call
	// done with any answer, or not at all.
	Send(r Request, done func(Answer))
	// Heard returns the probes of other daemons that have arrived since the last call, at
	// most one for each sender. It returns false if the host cannot listen for them.
	Heard() (heard []Heard, listens bool)
}

// Target is a peer in one family.
type Target struct {
	Subnet netip.Prefix // names the target
	Addr   netip.Addr   // the peer's address in its subnet
	// Bridge means that Addr is the bridge of the peer's pods, which does not exist until
	// its first pod. Unless it has answered before, the peer's uplink may answer for it.
	Bridge bool
	// Uplink is the peer's address in the underlay. The peer sends its own probes from
	// one of the two.
	Uplink netip.Addr
	From   netip.Addr // the source of probes to Addr; invalid: the kernel's choice
	// FromOptional means that From is the bridge of this host's pods, which does not exist
	// until its first pod. The kernel chooses the source then.
	FromOptional bool
	MTU          int // of pods, in bytes
}

// Finding is the conclusion from the answers of a peer.
type Finding string

// The findings.
const (
	Unknown     Finding = ""            // no examination has ended yet
	Well        Finding = "well"        // the peer answers everything
	Unreachable Finding = "unreachable" // it answers nothing
	SizeLost    Finding = "mtu"         // it does not answer packets of the size of the pods' MTU
	TCPLost     Finding = "tcp"         // it answers ICMP and not TCP: a filter, or wrong checksums
	ICMPLost    Finding = "icmp"        // it answers TCP and not ICMP: a filter
)

// Findings lists all findings.
var Findings = [...]Finding{Unknown, Well, Unreachable, SizeLost, TCPLost, ICMPLost}

// Result is the present knowledge about a peer in one family.
type Result struct {
	Address netip.Addr    `json:"Address"` // that is probed
	Finding Finding       `json:"Finding"`
	Since   time.Time     `json:"Since"`  // the finding holds since then
	At      time.Time     `json:"At"`     // end of the last examination
	RTT     time.Duration `json:"RTT"`    // of the last small echo that was answered; 0: none yet
	Sent    int           `json:"Sent"`   // the last small echoes, at most 32
	Lost    int           `json:"Lost"`   // those of them without an answer
	MTU     int           `json:"MTU"`    // of pods, in bytes: the size that has to pass
	Passes  int           `json:"Passes"` // the largest packet that passed, in bytes; 0: not known
	Heard   time.Time     `json:"Heard"`  // arrival of the peer's last probe here; zero: none yet
	// UplinkAnswers means that an unreachable peer answered an echo to its uplink.
	UplinkAnswers bool `json:"UplinkAnswers"`
}
