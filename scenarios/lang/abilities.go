package lang

import (
	"io"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// Interfaces of a world.

// Slow is a world in which a correct daemon needs more time than the bounds of a
// scenario allow, such as one on an emulated machine.
type Slow interface {
	// Stretch returns the bound to use in place of d.
	Stretch(d time.Duration) time.Duration
}

// OutsideRouter routes the overlay through a node for the outside host and for
// every user of the router; "" removes that route.
type OutsideRouter interface {
	Outward(node string) error
}

// EchoBound is the time after which a packet of a stream without a reply counts as lost.
const EchoBound = 3 * time.Second

// Streamer carries more than one packet.
type Streamer interface {
	// Transfer moves that many bytes from pod to pod and checks them.
	Transfer(from, to string, f cidr.Family, bytes int64) error
	// Stream pings until stopped; stop returns the counts.
	Stream(from, to string, o StreamOptions) (stop func() (sent, lost int, err error), err error)
}

// StreamOptions describe a stream of pings.
type StreamOptions struct {
	Family cidr.Family
	Every  time.Duration
	Steady bool // no ping waits for the reply to the last one
}

// SegmentDisturber sets what a segment, counted from 0, does to packets.
type SegmentDisturber interface {
	DisturbSegment(segment int, d Disturbance) error
}

// SegmentDelayer sets how a segment, counted from 0, changes the order of
// packets.
type SegmentDelayer interface {
	DelaySegment(segment int, d Delay) error
}

// PacketCapturer writes the traffic of each node's uplink to a pcap file that
// create opens.
type PacketCapturer interface {
	Capture(create func(node string) (io.Writer, error)) error
}

// VirtualClock is the clock of a world with virtual time.
type VirtualClock interface {
	Elapsed() time.Duration // since the world began
}

// DeadlineJudge is a world that ends itself when a node exceeds a deadline. It
// hears of every directive, to excuse nodes by the names of the faults in force.
type DeadlineJudge interface {
	// Directed is called after each directive. Host describes a node's host after
	// the topology and the faults so far.
	Directed(directive, faults []string, host func(node string) (oracle.Host, error))
}

// NodeObjects are the Kubernetes nodes of a world with topology store=kube.
type NodeObjects interface {
	// RegisterNode registers a kubelet, with the pod CIDR assigned to it.
	RegisterNode(name string) error
	// RegisterWithoutPodCIDR registers a kubelet that has no pod CIDR yet.
	RegisterWithoutPodCIDR(name string) error
	// MovePodCIDR assigns an unused pod CIDR, from the next registration on.
	MovePodCIDR(name string)
	DeleteNode(name string) error
	AnnotateNode(name string, change func(*nodelease.Node)) error
	NodeObject(name string) (n nodelease.Node, exists bool)
}

// Interfaces of a node.

// Process is the process of a daemon, on which signals and accidents act.
type Process interface {
	Pause() error
	Resume() error
	// Exited returns the status with which the last daemon ended by itself, or false.
	Exited() (status int, ok bool)
	// KillAt kills the daemon in the middle of its work: at that effect on
	// host, files or store, counted from now. 0 cancels that.
	KillAt(effect int) error
	// Second starts a second daemon on the host, or ends it.
	Second(on bool) error
}

// Sleeper is a machine that can sleep and whose clock can be wrong.
type Sleeper interface {
	// Suspend halts the machine with its clock for that long.
	Suspend(length time.Duration)
	// SetClock sets the error of the clock that daemons started later read.
	SetClock(offset time.Duration)
}

// PodHost makes the node's bridge and pod follow the subnet file.
type PodHost interface {
	SyncPods() error
}

// PodChurner is a node on which pods come and go, one at a time, for some time.
type PodChurner interface {
	ChurnPods(every, length time.Duration)
}

// LeaseHolder knows which subnet the node uses.
type LeaseHolder interface {
	Holds() lease.Key
}

// FileEditor changes the daemon's files behind its back; nil is no file.
type FileEditor interface {
	File(node.File) ([]byte, error)
	SetFile(node.File, []byte) error
	// FullDisk makes every write to the file fail.
	FullDisk(f node.File, on bool) error
}

// KeyOwner has a file with a private key of WireGuard.
type KeyOwner interface {
	// LoseKey removes the file behind the daemon's back.
	LoseKey() error
}

// TUNHider is a host that may lack the device by which programs make TUN devices.
type TUNHider interface {
	// HideTUN takes /dev/net/tun from the daemons that start from now on, or gives it back.
	HideTUN(on bool) error
}

// WriteTearer crashes the machine at the next write to a file, which leaves
// half of the text.
type WriteTearer interface {
	TearWrite(f node.File, on bool)
}

// Uplink is the node's interface to the underlay.
type Uplink interface {
	UplinkDown() error
	UplinkUp() error
	UplinkAddress(netip.Addr) error
	UplinkMTU(int) error
	// Carrier plugs the cable in, or pulls it.
	Carrier(on bool) error
}

// PodOwner has pods whose devices other programs made.
type PodOwner interface {
	// SetPodMTU gives the node's pods and their bridge another MTU than the subnet
	// file says.
	SetPodMTU(int) error
}

// Partitioner cuts connections of a node.
type Partitioner interface {
	// Isolate cuts all connections, Cut only those to the store.
	Isolate(bool) error
	Cut(bool) error
	// PartFrom drops packets from another node.
	PartFrom(other string, on bool) error
}

// Disturber sets what the uplink does to packets, in both directions.
type Disturber interface {
	Disturb(Disturbance) error
}

// Disturbance describes how a wire loses and limits packets. The zero value does neither.
type Disturbance struct {
	Loss float64 // probability
	MTU  int     // larger packets vanish; 0: no bound
}

// Delayer sets how the uplink changes the order of packets.
type Delayer interface {
	Delay(Delay) error
}

// Delay describes how a wire delays and reorders packets. The zero value does neither.
type Delay struct {
	Reorder, Duplicate float64 // probabilities
	Latency, Jitter    time.Duration
}

// LinkEditor changes a host's devices, as an operator would.
type LinkEditor interface {
	LinkDelete(dev string) error
	LinkDown(dev string) error
	LinkUp(dev string) error
	SetMAC(dev string, mac dataplane.MAC) error
	SetMTU(dev string, mtu int) error
	Enslave(dev, master string) error
	ProtoDown(dev string) error
	SetTTL(dev string, ttl uint8) error // of a vxlan device's packets
	// ReuseIndex deletes a device and gives its index to a new device.
	ReuseIndex(dev, other string) error
}

// NICAdder is a host that can get a further network card.
type NICAdder interface {
	// AddNIC adds a network card that is up and leads nowhere.
	AddNIC(dev string) error
}

// TableFlusher empties a host's tables, one device at a time.
type TableFlusher interface {
	FlushRoutes(dev string) error
	FlushNeigh(dev string) error
	FlushFDB(dev string) error
	FlushAddrs(dev string) error
	FlushNextHops(dev string) error
}

// FDBDiverter is a host on which another program can lead the forwarding entries of a vxlan device elsewhere.
type FDBDiverter interface {
	// DivertFDB makes a foreign next-hop object the destination of all of them.
	DivertFDB(dev string) error
}

// Kernel reads and changes single objects of a host, as an operator would.
type Kernel interface {
	State(extent dataplane.Extent) (*dataplane.State, error)
	Add(o dataplane.Object) error
	Remove(o dataplane.Object) error
	Replace(o dataplane.Object) error
	SetSysctl(path, value string) error
}

// ProcessState marks a node whose State includes the daemon's process: its udp
// packet paths and their peers, of which the kernel knows nothing.
type ProcessState interface {
	ShowsProcess()
}

// KernelRefuser makes a kernel refuse requests, each with some probability.
type KernelRefuser interface {
	RefuseChanges(with Refusal, probability float64)
	RefuseNextChanges(with Refusal, count int)
	RefuseLooks(probability float64)
	LoseHints(probability float64)
}

// HintStormer is a node whose kernel can be told to hint without a pause.
type HintStormer interface {
	StormHints(every, length time.Duration)
}

// Refusal is an error number of a kernel.
type Refusal string

// Refusals are the error numbers that a scenario can make a kernel return.
var Refusals = [...]Refusal{"ENOBUFS", "EBUSY", "EEXIST", "ENOENT"}

// PortUser uses UDP ports of the host.
type PortUser interface {
	// TakePort binds a port at all addresses for another program; LeavePort releases it.
	TakePort(port uint16) error
	LeavePort(port uint16) error
	// Received returns how many datagrams have come to a taken port.
	Received(port uint16) (int, error)
	SendUDP(to netip.AddrPort, payload []byte) error
}

// Blocker is a host whose own firewall can drop packets to the host.
type Blocker interface {
	// Block drops packets of a protocol ("icmp", "tcp" or "udp") to a port (0: to all), or
	// ends that.
	Block(protocol string, port uint16, on bool) error
}

// ChecksumSpoiler is a host whose network card can compute wrong checksums in tunnels.
type ChecksumSpoiler interface {
	SpoilChecksums(on bool) error
}

// PeerObserver is a daemon that describes its peers.
type PeerObserver interface {
	Peers() ([]node.Peer, error)
}

// LookObserver is a daemon that tells what its last look at its host found.
type LookObserver interface {
	// LastLook returns nil if there was none.
	LastLook() (*dataplane.State, error)
}

// Firewall is a host's packet filter as an operator or another program changes it.
type Firewall interface {
	// Rules returns flannel's chains, and the abilities of the host.
	Rules() (driver.FirewallFacts, *dataplane.State, error)
	// ForeignRules returns all rules of other programs, as text to compare.
	ForeignRules() (string, error)
	// Harm does one of the kinds of harm that FirewallHarms names. Mark is the
	// packet mark of the kind "mark".
	Harm(kind string, mark uint32) error
}

// FirewallToolbox is a host whose firewall tools can change: "nftables", "old" or "all".
type FirewallToolbox interface {
	SetFirewallTools(tools string) error
}

// FirewallLocker holds the lock of iptables for another program.
type FirewallLocker interface {
	LockFirewall(length time.Duration)
}

// StoreClient is the node's connection to the datastore.
type StoreClient interface {
	// Meet sets the fate of the next requests.
	Meet(f Fate, count int) error
	// ForgetToken makes the datastore forget the node's token. Deny revokes the
	// node's permission, or restores it.
	ForgetToken() error
	Deny(on bool) error
}

// Fate says how a request to the datastore ends.
type Fate string

// The fates of requests.
const (
	FateLost       Fate = "lost"       // the datastore never gets it
	FateUnanswered Fate = "unanswered" // the datastore serves it, but the answer is lost
	FateLate       Fate = "late"       // the datastore serves it after the node has given up
)

// Twin learns that another host or daemon uses the node's name. From then on a
// record does not tell which of them holds a subnet.
type Twin interface {
	GoByOneName()
}

// Interfaces of a datastore.

// RecordEditor changes records and history in ways that need a datastore with TTLs.
type RecordEditor interface {
	// Expire ends a record's TTL now.
	Expire(name string) error
	// SetTTL puts the same value again, with another TTL; 0: none, as for a reservation.
	SetTTL(name string, ttl time.Duration) error
	// Wipe deletes all records below "subnets/".
	Wipe() error
	Compact() error
}

// Restorer is a datastore with a backup.
type Restorer interface {
	Backup() error
	// Restore puts the datastore back to the last backup, followed by that many
	// changes that do not concern flannel.
	Restore(further int) error
}

// FaultyStore is a datastore that loses data, leader or messages.
type FaultyStore interface {
	LoseData() error
	// Leaderless makes the datastore serve no request and end no lease.
	Leaderless(on bool) error
	// Slow delays requests and answers by up to some time, with some probability.
	// Lossy loses some of them. Zero ends the fault.
	Slow(probability float64, by time.Duration) error
	Lossy(requests, answers float64) error
}

// TimedElection is a datastore that elects a new leader after some time.
type TimedElection interface {
	LoseLeader(length time.Duration)
}

// FaultyStreams is a datastore whose reads and event streams go wrong.
type FaultyStreams interface {
	// StaleReads sets the probability that a full read misses the last change.
	StaleReads(probability float64)
	DisturbEvents(EventFaults)
	// CalmStreams ends both, and every other random fault.
	CalmStreams()
}

// EventFaults are the faults of event streams, with their probabilities.
type EventFaults struct {
	Delay                           time.Duration
	Lose, Duplicate, Reorder, Break float64
}
