package status

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/internal/shellword"
)

// Advice says what an operator can do about a node that is not ready.
type Advice struct {
	Text    string
	Command string // which shows more, or repairs it
}

// faults hold the advice for each known cause of the datastore's failure.
var faults = map[lease.Fault]Advice{
	lease.FaultSpace: {"make room in etcd: its database has reached its quota, so it takes no writes until an operator " +
		"has compacted and defragmented it and ended the alarm",
		"etcdctl compact REVISION && etcdctl defrag --cluster && etcdctl alarm disarm"},
	lease.FaultPassword: {"correct the name and password of flanneld (--etcd-username, --etcd-password), or the " +
		"password that etcd has for it", "etcdctl user passwd NAME"},
	lease.FaultUnauthorized: {"give flanneld a token or certificate that the API server accepts: it does not say " +
		"whether that of the kubeconfig, or of the service account, has expired or is of another cluster. Look at its " +
		"dates, and at the clocks; a restart of the pod brings a new token", "openssl x509 -noout -dates -in CERTIFICATE"},
	lease.FaultExpired: {"renew the certificate that has expired, of the datastore or of this node, or correct the " +
		"clock. flanneld reads the new files by itself", "openssl x509 -noout -dates -in FILE"},
	lease.FaultAuthority: {"give each side the authority that signed the other's certificate: flanneld by " +
		"--etcd-cafile, --remote-cafile or the kubeconfig. It reads the new file by itself",
		"openssl verify -CAfile AUTHORITY CERTIFICATE"},
	lease.FaultCertificate: {"give flanneld a certificate for the datastore (--etcd-certfile and --etcd-keyfile, or " +
		"--remote-certfile and --remote-keyfile), and the datastore one with the address that flanneld asks",
		"openssl x509 -noout -ext subjectAltName -in FILE"},
	lease.FaultDenied: {"let the user of flanneld read and write its keys",
		"etcdctl role grant-permission ROLE readwrite --prefix=true /coreos.com/network/"},
	lease.FaultLeader: {"start the other members of etcd, or restore the network between them: the one that answers has " +
		"no leader, since it does not reach most of them", "etcdctl endpoint status --cluster -w table"},
	lease.FaultForbidden: {"give the account of flanneld, which the reason names, the ClusterRole of the manifest",
		"kubectl describe clusterrole,clusterrolebinding flannel"},
}

// isMute reports whether a reason says that a request has had no answer in time, though the connection stands.
func isMute(reason string) bool {
	return strings.Contains(reason, "etcd: ") && strings.Contains(reason, "context deadline exceeded") &&
		!strings.Contains(reason, "dial ")
}

// unresolved matches a failed question for the addresses of a name.
var unresolved = regexp.MustCompile(`lookup ([^\s:]+)( on \S+)?: `)

// nameUnknown returns the name of the datastore that this host cannot resolve, as a reason says; empty: none.
func nameUnknown(reasons []string) string {
	for _, r := range reasons {
		if name := unresolved.FindStringSubmatch(r); name != nil {
			return name[1]
		}
	}
	return ""
}

// OfFault returns the advice about a known cause of the datastore's failure, the zero value for one that is not known.
func OfFault(fault lease.Fault) Advice { return faults[fault] }

// Check is the advice where nothing more is known.
var Check = Advice{"look for the cause on this host", "flannelctl check"}

// isOfUplink reports whether a reason says that the uplink has lost its address, or is not usable any more.
func isOfUplink(reason string) bool { return strings.HasPrefix(reason, "uplink: ") }

// addresses returns the addresses of an uplink.
func addresses(u uplink.Uplink) string {
	var texts []string
	for _, f := range cidr.Families {
		if a := u.Addr(f); a.IsValid() {
			texts = append(texts, a.String())
		}
	}
	return strings.Join(texts, " and ")
}

// leadsNowhere reports whether a reason says that this host's own kernel has no way to the datastore. It says so of
// an address; a name that does not resolve may have other causes.
func leadsNowhere(reason string) bool {
	return strings.Contains(reason, "network is unreachable") || strings.Contains(reason, "no route to host")
}

// passing is how long a node may be unready for reasons that end by themselves, such as a start and a change of the
// network config. An operator has nothing to do about them.
const passing = 5 * time.Second

// passes reports whether a node has only just become unready.
func passes(s node.Status) bool {
	return !s.UnreadySince.IsZero() && s.TakenAt.Sub(s.UnreadySince) < passing
}

// Advise returns the advice for the most basic reason why a node is not ready; the zero
// value for a node that is ready, or was until a moment ago.
func Advise(s node.Status) Advice {
	lanes := true
	for _, l := range s.Lanes {
		lanes = lanes && (!l.Watched || l.AsDesired)
	}
	switch {
	case s.Ready:
		return Advice{}
	case faults[s.StoreFault] != Advice{}:
		return faults[s.StoreFault]
	case passes(s):
		return Advice{}
	case !s.Synced && nameUnknown(s.Reasons) != "":
		name := nameUnknown(s.Reasons)
		return Advice{fmt.Sprintf("this host cannot resolve the name %s of the datastore: correct its resolver or the name, "+
			"or name an address. The datastore itself may be well", name), "getent hosts " + shellword.Of(name)}
	case !s.Synced && slices.ContainsFunc(s.Reasons, leadsNowhere):
		return Advice{"this host has no way to the datastore: look whether its interface is up and has its address and " +
			"routes. The datastore itself may be well", "ip -br addr; ip route"}
	case !s.Synced && slices.ContainsFunc(s.Reasons, isMute):
		return Advice{"the datastore takes the connection and answers no request: etcd may have no leader, since most of " +
			"its members are down or cut off, or it is overloaded. This asks its members",
			"flannelctl check --etcd-endpoints=URL"}
	case !s.Synced:
		return Advice{"start the datastore, or correct the flags of flanneld that name it (--etcd-endpoints, --remote, " +
			"--kube-api-url). This asks it from here", "flannelctl config get --etcd-endpoints=URL"}
	case s.Backend == "":
		return Advice{"store a network config that flanneld accepts", "flannelctl config set FILE"}
	case s.Uplink.Link == "":
		return Advice{"name the interface by which the other nodes reach this one", "flanneld --iface=NAME"}
	case slices.ContainsFunc(s.Reasons, isOfUplink):
		return Advice{fmt.Sprintf("give %s the address %s back, or name the interface by which the other nodes reach this "+
			"one now (--iface)", s.Uplink.Link, addresses(s.Uplink)), "ip -br addr; ip route"}
	case s.Fenced || !s.Subnet.IsValid():
		return Advice{"find out which node has the subnet, and whether one is free", "flannelctl leases list"}
	case !lanes:
		return Advice{"see which objects the host refuses, or another program changes", "flannelctl diff"}
	}
	return Check
}
