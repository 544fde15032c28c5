package lang

import (
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/page"
)

// World is a set of hosts with a datastore, in which a scenario takes place. Nodes
// are named n1, n2, …; each has one pod, from its first SyncPods on.
//
// World, Node and Store hold only the methods that every scenario needs. Each
// further ability is an interface of its own, which a verb asks for with [able].
type World interface {
	Name() string // "sim" or "netns"
	Close() error

	// Until lets time pass until cond returns nil. If it still fails after
	// within, Until returns its last error.
	Until(within time.Duration, cond func() error) error

	Node(name string) (Node, error)
	Store() Store

	// Ping sends one echo request between pods, hosts and the outside host, and
	// reports its fate.
	Ping(from, to string, o PingOptions) (PingResult, error)

	// Logs returns the last lines of all daemons' logs, to explain a failure.
	Logs() string
}

// Node is a host with its daemon.
type Node interface {
	Start(flags []string) error
	Stop() error
	Kill() error
	Running() bool
	Status() (node.Status, error)
	Log() string
	SubnetFile() string // "" if there is none
}

// Informed is a node that can say whether its daemon has seen all changes of the datastore.
type Informed interface{ Current() bool }

// Store is the datastore as an operator uses it. Names are keys without the
// prefix: "config", "subnets/10.5.3.0-24".
type Store interface {
	Stop() error
	Start() error
	Put(name, value string) error
	Delete(name string) error
	Records() ([]Record, error)
}

// Record is one key below "subnets/".
type Record struct {
	Name     string // the last part of the key
	Value    string
	Reserved bool
	Created  int64 // revision
	Modified int64 // revision
}

// PingOptions describe the packet to send. Size is the length of the whole IP packet.
type PingOptions struct {
	Family cidr.Family
	Source netip.Addr // zero: the kernel's choice
	Size   int        // bytes; 0: small
	DF     bool
	TTL    int // hops; 0: the kernel's default

	Follow bool // in a real world: record the packet's path
}

// PingResult is the fate of an echo request.
type PingResult struct {
	OK         bool
	Source     netip.Addr // the sender as the destination saw it; zero if it saw nothing
	WantSource netip.Addr // the sender's own address
	Trace      []string   // the packet's path, if the world knows it
	Drop       string     // why it was lost, if the world knows it
	Where      string     // the host that lost it, if the world knows it
	Detail     string     // of a followed packet: details of the loss
	Way        []page.Hop // of a followed packet: the devices that saw it
	Expired    bool       // its TTL ran out
	TooBig     bool       // it did not fit, and forbade fragmentation
}

// LogTail is the number of lines of each daemon's log that a failure shows.
const LogTail = 40
