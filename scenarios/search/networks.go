package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// drawNetworks makes the plan of a seed in which each daemon runs several networks.
func drawNetworks(seed uint64, o Options) Plan {
	d := &networksDrawing{drawing: drawing{rng: rand.New(rand.NewPCG(seed, 0x2e75)), plan: Plan{Seed: seed}}}
	d.topology(o)
	d.joins()
	collisions := d.rng.IntN(2) == 0
	for range 3 + d.rng.IntN(14) {
		switch n := d.rng.IntN(8); {
		case n < 2:
			d.workload()
		case n == 2 && collisions:
			d.collide()
		case n < 4:
			d.comeOrGo()
		default:
			d.ofOneNetwork(d.fault)
		}
	}
	return d.plan
}

// networksDrawing is the plan of such a seed being drawn.
type networksDrawing struct {
	drawing
	networks []drawnNetwork
}

// drawnNetwork is one of the networks.
type drawnNetwork struct{ name, backend, config string }

// topology draws the hosts and their networks. Backends with one device can be there only once.
func (d *networksDrawing) topology(o Options) {
	s := shape{nodes: o.Nodes, segments: 1, family: o.Family, firewall: o.Firewall, mtu: 1500, several: true}
	if s.nodes == 0 {
		s.nodes = 2 + d.rng.IntN(3)
	}
	if s.family == "" {
		s.family = pick(d.rng, "v4", "v4", "dual")
	}
	if s.firewall == "" {
		s.firewall = pick(d.rng, "none", "iptables", "iptables", "nftables")
	}
	s.ttl = pick(d.rng, 6*time.Second, 30*time.Second, 10*time.Minute, 24*time.Hour)
	left := []string{"vxlan", "vxlan", "vxlan", "host-gw", "wireguard"}
	if s.family == "v4" {
		left = append(left, "udp", "ipip")
	}
	var words []string
	for i, name := range []string{"blue", "green", "red"}[:2+d.rng.IntN(2)] {
		at := d.rng.IntN(len(left))
		n := drawnNetwork{name: name, backend: left[at]}
		left = slices.Delete(left, at, at+1)
		n.config = networkConfig(i, s, backendOf(n.backend, i+1))
		d.networks = append(d.networks, n)
		words = append(words, n.name+":"+n.backend)
		for _, device := range devicesOf(n.backend, s.family) {
			s.devices = append(s.devices, strings.TrimSuffix(device, ".1"))
			if n.backend == "vxlan" {
				s.devices[len(s.devices)-1] += fmt.Sprintf(".%d", i+1)
			}
		}
		d.plan.Networks = append(d.plan.Networks, Step{Line: "store config network=" + name, Input: n.config})
	}
	if len(s.devices) == 0 {
		s.devices = []string{"flannel.1"}
	}
	line := fmt.Sprintf("topology nodes=%d families=%s ttl=%s networks=%s",
		s.nodes, s.family, s.ttl, strings.Join(words, ","))
	if d.rng.IntN(2) == 0 {
		line += " watch=yes"
	}
	if s.firewall != "none" {
		line += " firewall=" + s.firewall
	}
	over := d.nextHops(o)
	s.nextHops = over != ""
	line += over
	d.top = s
	d.plan.Nodes, d.plan.Outward = s.nodes, s.firewall != "none"
	d.plan.Topology = Step{Line: line}
}

// backendOf returns a Backend object with the given VNI, if the type has one.
func backendOf(backend string, vni int) string {
	if backend == "vxlan" {
		return fmt.Sprintf(`{"Type":"vxlan","VNI":%d}`, vni)
	}
	return fmt.Sprintf(`{"Type":%q}`, backend)
}

// networkConfig returns the config with the i-th address space.
func networkConfig(i int, s shape, backend string) string {
	text := fmt.Sprintf(`{"Network":"10.%d.0.0/16"`, 5+i)
	if s.family == "dual" {
		text += fmt.Sprintf(`,"EnableIPv6":true,"IPv6Network":"fd00:10:%d::/48"`, 5+i)
	}
	if s.firewall == "nftables" {
		text += `,"EnableNFTables":true`
	}
	return text + `,"Backend":` + backend + "}"
}

// ofOneNetwork draws steps about one of the networks.
func (d *networksDrawing) ofOneNetwork(draw func()) {
	before := len(d.plan.Steps)
	draw()
	name := d.networks[d.rng.IntN(len(d.networks))].name
	for i := range d.plan.Steps[before:] {
		s := &d.plan.Steps[before+i]
		s.Line = strings.Replace(s.Line, " may-fail", " network="+name+" may-fail", 1)
	}
}

// comeOrGo draws a change of the networks: one goes, comes back or changes.
func (d *networksDrawing) comeOrGo() {
	at := d.rng.IntN(len(d.networks))
	n := d.networks[at]
	config := "store config network=" + n.name + " may-fail"
	gone := Step{Line: "store delete config network=" + n.name + " may-fail", Fault: "network-removed"}
	back := Step{Line: config, Input: n.config, Fault: "network-restored"}
	changed := Step{Line: config, Fault: "network-changed"}
	changed.Input = networkConfig(at, d.top, pick(d.rng, backendOf("host-gw", 0), backendOf("vxlan", 10+at)))
	steps := pick(d.rng, []Step{gone}, []Step{gone, back}, []Step{back}, []Step{changed})
	for _, s := range steps {
		d.step(d.pause(), s)
	}
}

// collide draws a config with which a network cannot run beside another one, and perhaps the end of that: the
// one gets its first config again, or the other one goes or changes. Two networks may also swap what they have.
func (d *networksDrawing) collide() {
	at := d.rng.IntN(len(d.networks))
	other := (at + 1 + d.rng.IntN(len(d.networks)-1)) % len(d.networks)
	write := func(i int, text, fault string) Step {
		return Step{Line: "store config network=" + d.networks[i].name + " may-fail", Input: text, Fault: fault}
	}
	gone := func(i int) Step {
		return Step{Line: "store delete config network=" + d.networks[i].name + " may-fail", Fault: "network-removed"}
	}
	collides := write(at, d.colliding(at, other), "network-collides")
	back := write(at, d.networks[at].config, "network-restored")
	away := write(other, networkConfig(other, d.top, backendOf("host-gw", 0)), "network-changed")
	steps := pick(d.rng,
		[]Step{collides},
		[]Step{collides, back},
		[]Step{gone(at), collides},
		[]Step{collides, gone(other)},
		[]Step{collides, gone(other), write(other, d.networks[other].config, "network-restored")},
		[]Step{collides, away},
		[]Step{collides, write(other, d.colliding(other, at), "networks-swap")},
	)
	for _, s := range steps {
		d.step(d.pause(), s)
	}
}

// colliding returns a config of a network that does not fit beside the first config of another one: their
// addresses overlap, or they need one device or one UDP port.
func (d *networksDrawing) colliding(at, other int) string {
	own, theirs := d.networks[at].backend, d.networks[other].backend
	space := at
	backend := backendOf(theirs, other+1)
	switch d.rng.IntN(5) {
	case 0:
		space, backend = other, backendOf(own, at+1)
	case 1:
		narrow := networkConfig(at, d.top, backendOf(own, at+1))
		return strings.Replace(narrow, fmt.Sprintf("10.%d.0.0/16", 5+at), "10.4.0.0/14", 1)
	case 2:
		if option, port := portOption[own], usualPort[theirs]; option != "" && port != 0 && own != theirs {
			return networkConfig(at, d.top, fmt.Sprintf(`{"Type":%q,"VNI":%d,%q:%d}`, own, at+1, option, port))
		}
	}
	if theirs == "host-gw" {
		space, backend = other, backendOf(own, at+1) // it has no device
	}
	return networkConfig(space, d.top, backend)
}

// portOption names the option with the UDP port of a backend.
var portOption = map[string]string{"vxlan": "Port", "udp": "Port", "wireguard": "ListenPort"}

// usualPort holds the ports of backends without that option.
var usualPort = map[string]int{"vxlan": 8472, "udp": 8285, "wireguard": 51820}

// amongNetworks names the faults that a host with several networks can have.
var amongNetworks = []string{
	"healed", "store-started", "resumed", "killed", "paused", "paused-past-ttl", "suspended", "killed-at-boundary",
	"cut-from-store", "isolated", "parted", "parted-one-way", "carrier-lost", "uplink-bounced",
	"link-deleted", "link-down", "link-down-up", "mac-rewritten", "addr-flushed", "neigh-flushed", "fdb-flushed",
	"ifindex-reused", "routes-flushed", "route-deleted", "rules-flushed", "iptables-flushed", "jumps-moved",
	"firewall-locked", "forwarding-off", "firewalld-restarted", "store-stopped", "leader-lost", "answers-slow",
	"events-delayed", "compacted", "token-expired", "lease-revoked", "files-gone", "state-file-torn", "subnet-file-torn",
}

// healedNetworks is the end of such a plan: all networks have their first configs, which fit on a host. Each
// carries its packets, and none reaches another one.
func (p Plan) healedNetworks() []Step {
	steps := []Step{{Line: "store start may-fail"}, {Line: "store leaderless heal may-fail"}}
	for _, s := range p.Networks {
		s.Line += " may-fail"
		steps = append(steps, s)
	}
	steps = append(steps,
		Step{After: 40 * time.Second, Line: "heal"},
		Step{Line: fmt.Sprintf("settle within=%s", liveness)})
	if p.started() > 1 {
		steps = append(steps, p.pings(), Step{Line: "trace all"})
	}
	if p.started() > 0 && p.Outward {
		steps = append(steps, Step{Line: "ping all outside"}, Step{Line: "cross all"})
	}
	return append(steps, p.diff())
}
