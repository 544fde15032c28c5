package nodelease

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// MaxValue is the longest annotation allowed, in bytes. A reader keeps one byte
// more of a longer one, which shows that it is too long.
const MaxValue = 64 << 10

// Node is the part of a node object that concerns flannel. A heartbeat of the
// kubelet leaves it equal.
type Node struct {
	Name, UID string
	Created   int64  // seconds since 1970
	PodCIDRs  string // spec.podCIDRs, or spec.podCIDR where those are missing; separated by commas
	// InternalIPs are the addresses of that type in the status of our own node, separated
	// by commas. Of other nodes nothing reads them.
	InternalIPs string
	// Values are our annotations. A missing one is as good as an empty one.
	Values [annotations]string
}

// CreateRevision orders nodes by age, as the revision of creation does in etcd:
// by the second of creation, and then by UID. All readers compute the same one.
// Resource versions are no use: an object does not keep that of its creation.
func (n *Node) CreateRevision() int64 {
	const uidBits = 29 // which leaves 34 for the seconds, enough until the year 2514
	h := fnv.New32a()
	_, _ = h.Write([]byte(n.UID))
	return n.Created<<uidBits | int64(h.Sum32()>>(32-uidBits))
}

// Participates reports whether flannel runs on the node.
func (n *Node) Participates() bool { return n.Values[Marker] == "true" }

// key returns the node's subnet, in the families of the network.
func (n *Node) key(network config.Network) (lease.Key, error) {
	if n.PodCIDRs == "" {
		return lease.Key{}, fmt.Errorf("node %s has no pod CIDR", n.Name)
	}
	cidrs := strings.Split(n.PodCIDRs, ",")
	if len(cidrs) > 2 {
		return lease.Key{}, fmt.Errorf("node %s has %d pod CIDRs; want one for each family", n.Name, len(cidrs))
	}
	var key lease.Key
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return lease.Key{}, fmt.Errorf("node %s: pod CIDR %q is not a CIDR", n.Name, short(text))
		}
		f := cidr.FamilyOf(p.Addr())
		into := cidr.Pick(f, &key.V4, &key.V6)
		if into.IsValid() {
			return lease.Key{}, fmt.Errorf("node %s: pod CIDRs %s and %s are both %v", n.Name, *into, p, f)
		}
		if p.IsSingleIP() {
			return lease.Key{}, fmt.Errorf("node %s: pod CIDR %s has room for no pod", n.Name, p)
		}
		*into = p
	}
	return key.Filter(func(f cidr.Family, _ lease.Key) bool { return network.Of(f).Enabled() }), nil
}

// isInside reports whether a network contains the subnets of a key.
func isInside(network config.Network, key lease.Key) bool {
	return key == key.Filter(func(f cidr.Family, half lease.Key) bool {
		return cidr.Contains(network.Of(f).Network, half.Of(f))
	})
}

// attrs returns the attributes in the annotations, in the families of the
// network. Values of another family are left over from another config.
func (n *Node) attrs(network config.Network) (lease.Attrs, error) {
	for a := range annotations {
		if len(n.Values[a]) > MaxValue {
			return lease.Attrs{}, fmt.Errorf("annotation %s is longer than %d bytes", suffixes[a], MaxValue)
		}
	}
	v := n.Values
	if !network.V4.Enabled() {
		v[PublicIP], v[BackendData] = "", ""
	}
	if !network.V6.Enabled() {
		v[PublicIPv6], v[BackendV6Data] = "", ""
	}
	if v[PublicIP] == "" {
		v[PublicIP] = "0.0.0.0"
	}
	if w := v[BackendWays]; w != "" && !json.Valid([]byte(w)) {
		return lease.Attrs{}, fmt.Errorf("annotation %s %q: not JSON", suffixes[BackendWays], short(w))
	}
	// DecodeAttrs trusts nothing. Encoding the form of etcd for it checks that
	// each of the data is JSON by itself.
	text, err := json.Marshal(struct {
		PublicIP, PublicIPv6, BackendType       any
		BackendData, BackendV6Data, BackendWays json.RawMessage
	}{
		v[PublicIP], orNull(v[PublicIPv6]), v[BackendType],
		data(v[BackendData]), data(v[BackendV6Data]), data(v[BackendWays]),
	})
	if err != nil {
		return lease.Attrs{}, fmt.Errorf("backend data %q, %q: not JSON", short(v[BackendData]), short(v[BackendV6Data]))
	}
	return lease.DecodeAttrs(text)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func data(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(s)
}

// lease returns the node's lease in each family that has both a subnet and an
// address.
func (n *Node) lease(network config.Network) (lease.Lease, error) {
	key, err := n.key(network)
	if err != nil {
		return lease.Lease{}, err
	}
	l := lease.Lease{Key: key, CreateRevision: n.CreateRevision()}
	l.Attrs, err = n.attrs(network)
	if err != nil {
		return l, fmt.Errorf("node %s: %w", n.Name, err)
	}
	for _, f := range cidr.Families {
		subnet, ip := key.Of(f), l.Attrs.IP(f)
		whole := network.Of(f).Network
		switch {
		case !subnet.IsValid():
			continue
		case !cidr.Contains(whole, subnet):
			return l, fmt.Errorf("node %s: pod CIDR %s is outside the network %s", n.Name, subnet, whole)
		case !ip.IsValid():
			*cidr.Pick(f, &l.Key.V4, &l.Key.V6) = netip.Prefix{}
		case ip.IsMulticast() || ip.IsLoopback() || whole.Contains(ip):
			return l, fmt.Errorf("node %s: no node can be reached at its public address %s", n.Name, ip)
		}
	}
	if !l.Key.IsValid() {
		return l, fmt.Errorf("node %s has no public address in the family of its pod CIDR", n.Name)
	}
	return l, nil
}

// Changes returns the annotations to write, by full name, so that the node has
// these attributes. It returns none if the node has them already.
func (n *Node) Changes(names Names, a lease.Attrs) map[string]string {
	changes := map[string]string{}
	set := func(which Annotation, value string) {
		if n.Values[which] != value {
			changes[names.Of(which)] = value
		}
	}
	set(Marker, "true")
	set(BackendType, a.BackendType)
	// Interop 5.2: IPv4 always, except backends that omit an absent IPv4
	// address; IPv6 if there is an address.
	spec, _ := all.Find(a.BackendType)
	if a.PublicIP.IsValid() || !spec.OmitsIPv4 {
		set(PublicIP, orUnspecified(a.PublicIP).String())
		set(BackendData, text(a.BackendData))
	}
	if a.PublicIPv6.IsValid() {
		set(PublicIPv6, a.PublicIPv6.String())
		set(BackendV6Data, text(a.BackendV6Data))
	}
	set(BackendWays, string(lease.EncodeWays(a.Ways)))
	return changes
}

func orUnspecified(a netip.Addr) netip.Addr {
	if a.IsValid() {
		return a
	}
	return netip.IPv4Unspecified()
}

func text(data json.RawMessage) string {
	if len(data) == 0 {
		return "null"
	}
	return string(data)
}

// short keeps an error on one line.
func short(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
