package ways

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

// way is an opened backend.
type way struct {
	id      string // its identity
	spec    backend.Spec
	network config.Network // with the families and the Backend object of this way
	backend backend.Backend
	isAside bool // its devices have other names than alone: see [backend.Asider]
	role    Role

	replaced map[string]bool // what replaces has returned, by identity
}

// open opens the way that a Backend object names beside that of the network config,
// in the families of the network that it carries.
func open(network config.Network, object config.Backend) (way, error) {
	spec, _ := all.Find(object.Type)
	object, err := withOptionsOf(spec, network, object)
	if err != nil {
		return way{}, err
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
		w, err := open(network, object)
		if err != nil {
			return nil, fmt.Errorf("member Formerly[%d]: %w", i, err)
		}
		ids = append(ids, w.id)
	}
	return ids, nil
}

// withOptionsOf returns a former Backend object with the present values of the options
// on which nodes need not agree, if both have the same type. Two devices of one kind
// may have to agree: VXLAN devices with one port must have the same extensions.
func withOptionsOf(spec backend.Spec, present config.Network, former config.Backend) (config.Backend, error) {
	if same, _ := all.Find(present.Backend.Type); same.Type != spec.Type {
		return former, nil
	}
	families := backend.FamiliesOf(present)
	agreed, err := former.Members()
	if err != nil {
		return former, err
	}
	others, err := present.Backend.Members()
	if err != nil {
		return former, err
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

// openExactly opens the way that a network config names, without changing its options.
func openExactly(network config.Network) (way, error) {
	b, err := all.New(network)
	if err != nil {
		return way{}, err
	}
	spec, _ := all.Find(network.Backend.Type)
	id, err := spec.Identity(network.Backend, backend.FamiliesOf(network))
	if err != nil {
		return way{}, fmt.Errorf("backend %s: %w", spec.Type, err)
	}
	return way{id: id, spec: spec, network: network, backend: b, replaced: map[string]bool{}}, nil
}

// env returns the environment with this way's form of the config.
func (w way) env(env backend.Env) backend.Env {
	env.Config = w.network
	return env
}

// carries reports whether the way carries packets of a family.
func (w way) carries(f cidr.Family) bool { return w.network.Of(f).Enabled() }

// links returns the devices of the way.
func (w way) links() []string {
	if w.backend == nil {
		return nil
	}
	return w.backend.Extent().Links
}

// encrypts reports whether the way encrypts packets, and does not end.
func (w way) encrypts() bool { return w.spec.Encrypts && !w.role.Ending }

// ports returns the UDP ports of the way.
func (w way) ports() []backend.UDPPort { return w.spec.Ports(w.network) }

// coexists reports whether two ways can be open on one host: they share their devices, or no device
// belongs to both and they need no UDP port in turn. Both are backends that handle peers.
func (w way) coexists(o way) bool {
	if w.alone() || o.alone() {
		return false
	}
	if w.shares(o) {
		return true
	}
	if backend.Exclude(w.ports(), o.ports()) != 0 {
		return false
	}
	links := o.links()
	return !slices.ContainsFunc(w.links(), func(l string) bool { return slices.Contains(links, l) })
}

// shares reports whether two ways use the same devices at once, such as two modes of wireguard.
func (w way) shares(o way) bool { return w.spec.Type == o.spec.Type && w.spec.SharesDevices }

// aside returns the way with devices of other names, or the way itself if its backend has none.
func (w way) aside() way {
	if b, ok := w.backend.(backend.Asider); ok {
		if aside, ok := b.Aside(); ok {
			w.backend, w.isAside = aside, true
		}
	}
	return w
}

// mostReplaced is the number of records' identities that a way remembers.
const mostReplaced = 100

// replaces reports whether a way with an identity is of the same type and has the same
// devices: vxlan with another port, for example. If a host has only one of them, it
// stands for the other too. Meanwhile routes without encapsulation work.
func (w way) replaces(id string) bool {
	known, ok := w.replaced[id]
	if ok {
		return known
	}
	if len(w.replaced) >= mostReplaced {
		clear(w.replaced)
	}
	object, named := objectOf(id)
	if named && object.Type == w.spec.Type {
		other, err := open(w.network, object)
		known = w.spec.SharesDevices || err == nil && !w.coexists(other)
	}
	w.replaced[id] = known
	return known
}

// alone reports whether the way cannot be open beside any other.
func (w way) alone() bool { return w.spec.IgnoresPeers || w.spec.Alone }

// publishedType returns the BackendType of the way's records.
func (w way) publishedType() string {
	if w.spec.Untyped {
		return ""
	}
	return w.spec.Type
}

// face returns the attributes with the way's own data alone, as a record for this way
// has them. It returns false if the attributes do not have the way.
func (w way) face(a *lease.Attrs) (lease.Attrs, bool) {
	if identityOf(a) == w.id {
		own := *a
		own.Ways = lease.Ways{}
		return own, true
	}
	others := a.Ways.Former
	if a.Ways.Next != nil {
		others = append(slices.Clip(others), *a.Ways.Next)
	}
	for _, f := range others {
		if string(f.Backend) == w.id {
			return lease.Attrs{
				PublicIP: a.PublicIP, PublicIPv6: a.PublicIPv6, BackendType: w.publishedType(),
				BackendData: f.Data, BackendV6Data: f.V6Data,
			}, true
		}
	}
	return lease.Attrs{}, false
}
