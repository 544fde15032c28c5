package backends

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// member is an opened backend of a set.
type member struct {
	id      string // its identity
	spec    backend.Spec
	network config.Network // with the families and the Backend object of this backend
	backend backend.Backend
	isAside bool // its devices have other names than alone: see [backend.Asider]
	role    Role

	replaced map[string]bool // what replaces has returned, by identity
}

// open opens the backend that a Backend object names beside that of the network config,
// in the families of the network that it carries.
func open(network config.Network, object config.Backend) (member, error) {
	spec, _ := all.Find(object.Type)
	object, err := withOptionsOf(spec, network, object)
	if err != nil {
		return member{}, err
	}
	network.Backend = object
	if carries := spec.Carries; !slices.Contains(carries, backend.FamiliesOf(network)) {
		for _, f := range cidr.Families {
			alone := cidr.Pick(f, backend.IPv4Only, backend.IPv6Only)
			if network.Of(f).Enabled() && slices.Contains(carries, alone) {
				network = network.Only(f)
				break
			}
		}
	}
	return openExactly(network)
}

// Formerly returns the identities of the previous backends that a network config names, or an error if one of them
// cannot be opened.
func Formerly(network config.Network) (ids []string, err error) {
	for i, object := range network.Formerly {
		m, err := open(network, object)
		if err != nil {
			return nil, fmt.Errorf("member Formerly[%d]: %m", i, err)
		}
		ids = append(ids, m.id)
	}
	return ids, nil
}

// withOptionsOf returns a previous Backend object with the present values of the options
// on which nodes need not agree, if both have the same type. Two devices of one kind
// may have to agree: VXLAN devices with one port must have the same extensions.
func withOptionsOf(spec backend.Spec, present config.Network, previous config.Backend) (config.Backend, error) {
	if same, _ := all.Find(present.Backend.Type); same.Type != spec.Type {
		return previous, nil
	}
	families := backend.FamiliesOf(present)
	agreed, err := previous.Members()
	if err != nil {
		return previous, err
	}
	others, err := present.Backend.Members()
	if err != nil {
		return previous, err
	}
	object := config.Backend{Type: spec.Type}.WithDefault("Type", strconv.Quote(spec.Type))
	for _, m := range slices.Backward(agreed) {
		if spec.Agrees(m.Name, families) {
			object = object.WithDefault(m.Name, string(m.Value))
		}
	}
	for _, m := range slices.Backward(others) {
		if !spec.Agrees(m.Name, families) && !strings.EqualFold(m.Name, "Type") {
			object = object.WithDefault(m.Name, string(m.Value))
		}
	}
	return object, nil
}

// openExactly opens the backend that a network config names, without changing its options.
func openExactly(network config.Network) (member, error) {
	b, err := all.New(network)
	if err != nil {
		return member{}, err
	}
	spec, _ := all.Find(network.Backend.Type)
	id, err := spec.Identity(network.Backend, backend.FamiliesOf(network))
	if err != nil {
		return member{}, fmt.Errorf("backend %s: %m", spec.Type, err)
	}
	return member{id: id, spec: spec, network: network, backend: b, replaced: map[string]bool{}}, nil
}

// env returns the environment with this backend's form of the config.
func (m member) env(env backend.Env) backend.Env {
	env.Config = m.network
	return env
}

// carries reports whether the backend carries packets of a family.
func (m member) carries(f cidr.Family) bool { return m.network.Of(f).Enabled() }

// links returns the devices of the backend.
func (m member) links() []string {
	if m.backend == nil {
		return nil
	}
	return m.backend.Extent().Links
}

// encrypts reports whether the backend encrypts packets, and does not end.
func (m member) encrypts() bool { return m.spec.Encrypts && !m.role.Ending }

// ports returns the UDP ports of the backend.
func (m member) ports() []backend.UDPPort { return m.spec.Ports(m.network) }

// coexists reports whether two backends can be open on one host: they share their devices, or no device
// belongs to both and they need no UDP port in turn. Both are backends that handle peers.
func (m member) coexists(o member) bool {
	if m.alone() || o.alone() {
		return false
	}
	if m.shares(o) {
		return true
	}
	if backend.Exclude(m.ports(), o.ports()) != 0 {
		return false
	}
	links := o.links()
	return !slices.ContainsFunc(m.links(), func(l string) bool { return slices.Contains(links, l) })
}

// shares reports whether two backends use the same devices at once, such as two modes of wireguard.
func (m member) shares(o member) bool { return m.spec.Type == o.spec.Type && m.spec.SharesDevices }

// aside returns the backend with devices of other names, or the backend itself if it has none.
func (m member) aside() member {
	if b, ok := m.backend.(backend.Asider); ok {
		if aside, ok := b.Aside(); ok {
			m.backend, m.isAside = aside, true
		}
	}
	return m
}

// mostReplaced is the number of records' identities that a backend remembers.
const mostReplaced = 100

// replaces reports whether a backend with an identity is of the same type and has the same
// devices: vxlan with another port, for example. A host that has only one of the two sends to peers of the other
// by it. Only packets that go by direct routing arrive then.
func (m member) replaces(id string) bool {
	known, ok := m.replaced[id]
	if ok {
		return known
	}
	if len(m.replaced) >= mostReplaced {
		clear(m.replaced)
	}
	object, named := objectOf(id)
	if named && object.Type == m.spec.Type {
		other, err := open(m.network, object)
		known = m.spec.SharesDevices || err == nil && !m.coexists(other)
	}
	m.replaced[id] = known
	return known
}

// alone reports whether the backend cannot be open beside any other.
func (m member) alone() bool { return m.spec.IgnoresPeers || m.spec.Alone }

// publishedType returns the BackendType of the backend's records.
func (m member) publishedType() string {
	if m.spec.Untyped {
		return ""
	}
	return m.spec.Type
}

// face returns the attributes with the backend's own data alone, as a record for this backend
// has them. It returns false if the attributes do not have the backend.
func (m member) face(a *lease.Attrs) (lease.Attrs, bool) {
	if identityOf(a) == m.id {
		own := *a
		own.Ways = lease.Ways{}
		return own, true
	}
	others := a.Ways.Former
	if a.Ways.Next != nil {
		others = append(slices.Clip(others), *a.Ways.Next)
	}
	for _, f := range others {
		if string(f.Backend) == m.id {
			return lease.Attrs{
				PublicIP: a.PublicIP, PublicIPv6: a.PublicIPv6, BackendType: m.publishedType(),
				BackendData: f.Data, BackendV6Data: f.V6Data,
			}, true
		}
	}
	return lease.Attrs{}, false
}
