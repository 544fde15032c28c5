package planted

import (
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/search"
)

// These steps expose defects of the choice of an uplink and of repairs that another program undoes.
var (
	defaultOfPods = []search.Step{
		{Line: "heal"}, {Line: "settle within=5m"}, {Line: "fault N add", Input: "addr 172.30.0.1/24 dev cni0"},
		{Line: "fault N add", Input: "route 0.0.0.0/0 dev cni0 metric 205 scope 253 proto 16"},
		{Line: "fault N default-route off"}, {Line: "kill N"}, {Line: "fault N file state gone"}, {Line: "start N"},
		{Line: "pass 1m"},
		{Line: "fault N remove", Input: "route 0.0.0.0/0 dev cni0 metric 205 scope 253 proto 16"},
		{Line: "fault N remove", Input: "addr 172.30.0.1/24 dev cni0"},
	}
	otherNIC = []search.Step{
		{Line: "heal"}, {Line: "fault N nic eth1 address=172.20.0.1/24"},
		{Line: "fault N remove", Input: "addr 192.168.64.#N/24 dev eth0"}, {Line: "pass 6m"},
		{Line: "fault N add", Input: "addr 192.168.64.#N/24 dev eth0"},
		{Line: "fault N add", Input: "route 0.0.0.0/0 via 192.168.64.253 dev eth0 proto 3"}, {Line: "pass 3m"},
	}
	rivals = []search.Step{{Line: "heal"}, {Line: "fault N rival flush fdb flannel.1"}, {Line: "pass 1m"}}
)

// bridgeless takes the bridge of the pods for any other link.
func bridgeless() *body {
	return &body{facts: func(f driver.HostFacts) driver.HostFacts {
		f.Links = slices.Clone(f.Links)
		for i := range f.Links {
			f.Links[i].Bridge = false
		}
		return f
	}}
}

// unforgiving does not look at an interface again that once had no address.
func unforgiving() *body {
	lost := false
	return &body{facts: func(f driver.HostFacts) driver.HostFacts {
		f.Links = slices.DeleteFunc(slices.Clone(f.Links), func(l driver.Link) bool {
			lost = lost || l.Name == "eth0" && len(l.Addrs) == 0
			return lost && l.Name == "eth0"
		})
		return f
	}}
}

// uncontested is ready while another program undoes its repairs.
type uncontested struct{ daemon.Machine }

func (u uncontested) Pulse() node.Pulse {
	p := u.Machine.Pulse()
	if slices.ContainsFunc(p.Reasons, func(r string) bool { return strings.Contains(r, "undoes this repair") }) {
		p.Phase, p.Reasons = node.PhaseReady, nil
	}
	return p
}
