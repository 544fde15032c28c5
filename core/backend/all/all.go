package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/alloc"
	"github.com/flanneld/flannel/core/backend/cloud"
	"github.com/flanneld/flannel/core/backend/extension"
	"github.com/flanneld/flannel/core/backend/hostgw"
	"github.com/flanneld/flannel/core/backend/ipip"
	"github.com/flanneld/flannel/core/backend/ipsec"
	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/backend/wireguard"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
)

// Default is the type of a config that names none (interop 2).
const Default = udp.Type

// specs holds every type of backend that a config may name (interop 6), made once: nodes
// look a type up on every turn. To add one, put its package beside the others and its
// Spec here.
var specs = append([]backend.Spec{
	vxlan.Spec(),
	hostgw.Spec(),
	udp.Spec(),
	ipip.Spec(),
	extension.Spec(),
	alloc.Spec(),
	wireguard.Spec(),
	ipsec.Spec(),
}, cloud.Specs()...)

// Specs returns every type of backend. Callers must not change the slices in a Spec.
func Specs() []backend.Spec { return slices.Clone(specs) }

// Find returns the spec of a type; "" stands for [Default].
func Find(name string) (backend.Spec, bool) {
	if name == "" {
		name = Default
	}
	for i := range specs {
		if specs[i].Type == name {
			return specs[i], true
		}
	}
	return backend.Spec{}, false
}

// NamesDevice reports whether a backend of this build gives such a name to a device.
func NamesDevice(name string) bool {
	return slices.ContainsFunc(specs, func(s backend.Spec) bool { return s.NamesDevice(name) })
}

// MakesDevice reports whether a backend of this build makes such a device.
func MakesDevice(l dataplane.Link) bool {
	return slices.ContainsFunc(specs, func(s backend.Spec) bool { return s.MakesDevice(l) })
}

// New returns the backend that a network config asks for.
func New(network config.Network) (backend.Backend, error) {
	name := network.Backend.Type
	families := backend.FamiliesOf(network)
	spec, known := Find(name)
	switch {
	case !known:
		return nil, fmt.Errorf("unknown backend type %q; known are %s", name, types(func(backend.Spec) bool { return true }))
	case !slices.Contains(spec.Carries, families):
		fits := func(s backend.Spec) bool { return slices.Contains(s.Carries, families) }
		return nil, fmt.Errorf("backend type %q does not carry the families of this network "+
			"(EnableIPv4 %t, EnableIPv6 %t); change them, or choose one of %s",
			spec.Type, network.V4.Enabled(), network.V6.Enabled(), types(fits))
	}
	return spec.Open(network)
}

// Warnings returns a sentence for each member of a config that has no effect.
func Warnings(network config.Network) []string {
	warnings := slices.Clone(network.Warnings)
	for i, b := range append([]config.Backend{network.Backend}, network.Formerly...) {
		where := "Backend"
		if i > 0 {
			where = fmt.Sprintf("Formerly[%d]", i-1)
		}
		spec, _ := Find(b.Type)
		for _, name := range spec.Unknown(b) {
			warnings = append(warnings, fmt.Sprintf("%s member %q is unknown to %s and ignored", where, name, spec.Type))
		}
	}
	return warnings
}

// types lists the types that fit, such as "vxlan, host-gw".
func types(fits func(backend.Spec) bool) string {
	var names []string
	for _, s := range specs {
		if fits(s) {
			names = append(names, s.Type)
		}
	}
	return strings.Join(names, ", ")
}
