package scenarios

import (
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/scenarios/report"
)

// World is a set of hosts with a datastore, in which a scenario happens. Nodes
// are named n1, n2, …; each has one pod, from its first SyncPods on.
type World interface {
	Name() string // "sim" or "netns"
	Close() error

	// Until lets time pass until cond returns nil, and returns its last error
	// if it did not within the time given.
	Until(within time.Duration, cond func() error) error

	Node(name string) (Node, error)
	Store() Store

	// Ping sends one echo request between pods, hosts and the host outside,
	// and says what became of it.
	Ping(from, to string, o PingOptions) (PingResult, error)
	// Outward lets the world outside, and whoever asks the router, reach the
	// overlay's networks by a node; "" takes that back.
	Outward(node string) error
	// Transfer moves that many bytes from pod to pod and checks them.
	Transfer(from, to string, f cidr.Family, bytes int64) error
	// Stream pings every so often until stopped, and then says how it went.
	Stream(from, to string, every time.Duration) (stop func() (sent, lost int, err error), err error)

	// DisturbSegment sets what a segment, from 0, does to packets.
	DisturbSegment(segment int, d disturbance) error

	// Logs is what the daemons wrote lately, for whoever reads a failure.
	Logs() string
}

// logTail is how many lines of a daemon's log a failure shows.
const logTail = 40

// PingOptions say what to send. Size is that of the whole IP packet.
type PingOptions struct {
	Family cidr.Family
	Source netip.Addr // zero: what the kernel chooses
	Size   int        // bytes; 0: small
	DF     bool
	TTL    int // hops; 0: as many as the kernel gives

	Follow bool // in a real world: see which way it takes
}

// PingResult is what became of an echo request.
type PingResult struct {
	OK         bool
	Source     netip.Addr   // whom the destination saw, if it saw anybody
	WantSource netip.Addr   // the sender's own address
	Trace      []string     // the way it took, where the world can tell
	Drop       string       // why it was lost, where the world can tell
	Where      string       // of a packet that was followed: where it was lost …
	Detail     string       // … what more there is to say of that …
	Way        []report.Hop // … and who saw it
	Expired    bool         // it was lost because its TTL ended
	TooBig     bool         // it was lost because it did not fit and was not to be fragmented
}

// Node is a host with its daemon, kernel and uplink.
type Node interface {
	Start(flags []string) error
	Stop() error
	Kill() error
	Pause() error
	Resume() error
	Running() bool
	// Exited tells how the last daemon ended by itself, or false.
	Exited() (status int, ok bool)
	Status() (Status, error)
	Log() string
	SubnetFile() string
	// File and SetFile are the daemon's files behind its back; nil: none.
	File(node.File) ([]byte, error)
	SetFile(node.File, []byte) error
	// SyncPods makes the node's bridge and pod what the subnet file says.
	SyncPods() error

	UplinkDown() error
	UplinkUp() error
	UplinkAddress(netip.Addr) error
	UplinkMTU(int) error
	// Carrier plugs the uplink's cable, or pulls it.
	Carrier(on bool) error
	// Isolate cuts the node off from everybody, Cut only from the store.
	Isolate(bool) error
	Cut(bool) error

	Kernel
	Wall
	Faults
}

// Wall is a host's packet filter, as an operator or a stranger changes it.
type Wall interface {
	// Rules are flannel's chains, and what the host can do.
	Rules() (driver.FirewallFacts, dataplane.State, error)
	// Strangers is all that others have there, in some form that compares.
	Strangers() (string, error)
	// Upset does one of the kinds of harm that upsets lists.
	Upset(kind string, o UpsetOptions) error
}

// UpsetOptions are what some kinds of harm need to know.
type UpsetOptions struct {
	Mark uint32        // that a stranger sets
	For  time.Duration // how long a stranger holds the lock
}

// Kernel is a host's kernel, as an operator or a stranger changes it.
type Kernel interface {
	LinkDelete(dev string) error
	LinkDown(dev string) error
	LinkUp(dev string) error
	SetMAC(dev string, mac dataplane.MAC) error
	SetMTU(dev string, mtu int) error
	FlushRoutes(dev string) error
	FlushNeigh(dev string) error
	FlushFDB(dev string) error
	FlushAddrs(dev string) error
	SetSysctl(path, value string) error
	// TakePort lets a stranger bind a UDP port at all addresses, LeavePort ends that.
	TakePort(port uint16) error
	LeavePort(port uint16) error
	// SendUDP sends one datagram from the host.
	SendUDP(to netip.AddrPort, payload []byte) error
	// ReuseIndex deletes a device and gives its index to a stranger's.
	ReuseIndex(dev, stranger string) error
	Add(o dataplane.Object) error
	Remove(o dataplane.Object) error
	State(extent dataplane.Extent) (dataplane.State, error)
}

// Status is what a daemon says of itself.
type Status struct {
	Ready       bool
	Fenced      bool
	Stale       bool
	Synced      bool
	Phase       string
	Reasons     []string
	Revision    int64
	Programmed  int64
	Peers       int
	Quarantined int
	PacketPaths []node.PacketPath
}

// Store is the datastore, as an operator or a stranger uses it. Names are what
// follows the prefix: "config", "subnets/10.5.3.0-24".
type Store interface {
	Stop() error
	Start() error
	Wipe() error
	Compact() error
	Put(name, value string) error
	Delete(name string) error
	// Expire ends a record's TTL now.
	Expire(name string) error
	// Reserve puts the same value again, without a TTL.
	Reserve(name string) error
	Records() ([]Record, error)

	storeFaults
}

// Record is what is below "subnets/".
type Record struct {
	Name     string // the last part of the key
	Value    string
	Reserved bool
	Created  int64 // revision
	Modified int64 // revision
}
