package status

import "github.com/flanneld/flannel/core/node"

// Advice says what an operator can do about a node that is not ready.
type Advice struct {
	Text    string
	Command string // which shows more, or repairs it
}

// Advise returns the advice for the most basic reason why a node is not ready; the zero
// value for a node that is ready.
func Advise(s node.Status) Advice {
	lanes := true
	for _, l := range s.Lanes {
		lanes = lanes && (!l.Watched || l.AsDesired)
	}
	switch {
	case s.Ready:
		return Advice{}
	case !s.Synced:
		return Advice{"start the datastore, or correct the flags of flanneld that name it (--etcd-endpoints, --remote, " +
			"--kube-api-url). This asks it from here", "flannelctl config get --etcd-endpoints=URL"}
	case s.Backend == "":
		return Advice{"store a network config that flanneld accepts", "flannelctl config set FILE"}
	case s.Uplink.Link == "":
		return Advice{"name the interface by which the other nodes reach this one", "flanneld --iface=NAME"}
	case s.Fenced || !s.Subnet.IsValid():
		return Advice{"find out which node has the subnet, and whether one is free", "flannelctl leases list"}
	case !lanes:
		return Advice{"see which objects the host refuses, or another program changes", "flannelctl diff"}
	}
	return Advice{"look for the cause on this host", "flannelctl check"}
}
