package check

import (
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// Facts describe a host, as far as flannel depends on it.
type Facts struct {
	// Network is the network config, nil if none is known.
	Network *config.Network
	// ConfigError says why a config cannot be used.
	ConfigError string

	// Assigned says that Kubernetes assigns the subnets.
	Assigned bool

	Daemons    []int  // ids of processes called flanneld
	Hidden     bool   // which daemons run could not be learnt
	Hangs      string // the error of a daemon that runs and does not answer
	SubnetFile SubnetFile
	Status     *node.Status      // of the daemon; nil: none has answered
	Peers      []node.Peer       // as the daemon serves them
	Modules    map[string]Module // those that a backend may need
	TUN        bool              // /dev/net/tun exists
	// Options are those of the kernel that are built in ("y") or modules ("m"), by name without
	// CONFIG_, and OptionsFrom is the file that says so; empty: there is none.
	Options     map[string]string
	OptionsFrom string

	// Sysctls are kernel settings, by path below /proc/sys; a setting that does not
	// exist is missing here.
	Sysctls map[string]string

	Paths    []Path // of packets between pods, through this host
	Host     driver.HostFacts
	Firewall driver.FirewallFacts
	Chains   *dataplane.State  // flannel's chains
	Routes   []Route           // of the host, without default routes
	UDP      map[uint16]string // users of UDP ports: the name of a process, "" for none that can be seen

	Processes map[string]bool // names of the running programs that matter here
	Trusted   []string        // interfaces in firewalld's zone trusted
	// Settings are the texts of configuration files, by path.
	Settings map[string]string
	CNI      []string // names of the files in the folder of the CNI configuration, sorted
	CNIFirst string   // the text of the one that the runtime takes
	// CNISubnet is the subnet file that it names for flannel's plugin and that does not exist; "": none.
	CNISubnet string
	Pools     []Pool // of addresses for pods

	Disks   []Disk
	SELinux string // "", "permissive" or "enforcing"
	// Ahead is how far this host's clock is ahead of the datastore's; Clock says
	// whether it is known.
	Ahead time.Duration
	Clock bool

	Store Store // as this command has found it
	// Connections is the table of connection tracking.
	Connections Table
	// Neighbours are the tables of neighbours of all namespaces, by family.
	Neighbours [2]Table

	// Unknown says which facts could not be read.
	Unknown []string
}

// Store is the datastore, if the command was to ask it.
type Store struct {
	Err        error    // why it could not be read
	Complaints []string // of members of etcd, such as "http://10.0.0.1:2379 says alarm:NOSPACE"
}

// Table is a table of the kernel with a bound.
type Table struct {
	Entries, Most int // Most is 0 where the table cannot be read
	// Refused counts the entries that found no room since the host started, and Now those of them while this command ran.
	Refused, Now uint64
}

// SubnetFile is the file that CNI plugins read.
type SubnetFile struct {
	Path   string
	Exists bool
	Subnet lease.Key
	MTU    int
	Masq   bool // the daemon masquerades
}

// Module is the state of a kernel module.
type Module string

// The states of a kernel module.
const (
	Loaded   Module = "loaded" // or built in
	Loadable Module = "loadable"
	Missing  Module = "missing"
	Unsure   Module = "unsure" // the host has no list of modules
)

// Route is a route of the host's main table.
type Route struct {
	Dst  netip.Prefix
	Link string
	Via  bool // it has a gateway
}

// Disk is a folder that flannel writes to.
type Disk struct {
	Path     string
	Free     uint64 // bytes
	Inodes   uint64 // free ones
	ReadOnly bool
}

// Level is the severity of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Failure Level = "failure"
)

// Finding is the result of one check.
type Finding struct {
	Level  Level  `json:"Level"`
	Topic  string `json:"Topic"`
	Text   string `json:"Text"`
	Remedy string `json:"Remedy,omitempty"` // a command
}
