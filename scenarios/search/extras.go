package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/scenarios/lang"
)

// extras are faults that one seed in eight draws in addition to the others, by a stream of random numbers
// of its own: all other seeds stay the same.
func extras() []fault {
	return []fault{
		{name: "tun-gone", fits: mayUseTUN, draw: func(d *drawing) []Step {
			return d.fillAll([]Step{at(0, "fault N tun gone"), at(0, "restart N"),
				at(time.Duration(d.pause()), "fault N tun gone heal"), at(0, "restart N")})
		}},
		{name: "setting-changed", fits: func(s shape) bool { return isVXLAN(s) && hasIPv6(s) },
			draw: func(d *drawing) []Step {
				return []Step{{Line: d.fill("fault N sysctl net/ipv6/conf/flannel-v6.1/accept_ra=1")}}
			}},
		onVXLAN(one("link-enslaved", "fault N link D master=cni0")),
		onVXLAN(one("link-protodown", "fault N link D protodown")),
		onVXLAN(one("link-ttl", "fault N link D ttl=1")),
		onVXLAN(one("fdb-diverted", "fault N divert D")),
		{name: "pods-forwarding-off", fits: func(s shape) bool { return s.family != "v6" },
			draw: func(d *drawing) []Step {
				return []Step{{Line: d.fill("fault N forwarding off by=cni0")}}
			}},
		{name: "port-blocked", fits: func(s shape) bool { return ports[s.backend] != "" && !s.nat },
			draw: func(d *drawing) []Step {
				return []Step{{Line: d.fill("fault N block udp port=" + ports[d.top.backend])}}
			}},
		{name: "foreign-object", fits: func(s shape) bool { return s.family != "v6" }, draw: foreignObject},
		one("default-route-gone", "fault N default-route off"),
		overTunnels(several("second-nic", at(0, "fault N nic eth1 address=172.20.0.1/24"),
			at(20*time.Second, "fault N default-route off"), at(20*time.Second, "restart N"))),
		overTunnels(several("uplink-address-gone", at(0, "fault N nic eth1 address=172.20.0.1/24"),
			at(0, "fault N uplink no-address"), at(6*time.Minute, "heal"))),
		several("second-nic-beside", at(0, "fault N nic eth1 address=172.20.0.1/24 metric=50"),
			at(10*time.Second, "fault N default-route off"), at(40*time.Second, "fault N default-route on")),
		{name: "uplink-address-blink", draw: func(d *drawing) []Step {
			return d.fillAll([]Step{at(0, "fault N uplink no-address"), at(time.Duration(d.pause()), "heal")})
		}},
		rival("rival-unroute", "unroute P", func(s shape) bool { return s.nodes > 1 && routesToPeers(s) }),
		rival("rival-link", "link D down", isVXLAN),
		rival("rival-fdb", "flush fdb D", isVXLAN),
		rival("rival-firewall", "firewall flush-ruleset", func(s shape) bool { return s.firewall != "none" }),
		{name: "addresses-swapped", fits: canSwap, draw: addressesSwapped},
		{name: "default-route-of-pods", fits: func(s shape) bool { return s.family != "v6" }, draw: defaultOfPods},
		{name: "key-gone", fits: hasKey, draw: func(d *drawing) []Step {
			steps := []Step{at(0, "fault N key gone"), at(time.Duration(d.pause()), "restart N")}
			return d.fillAll(steps[:1+d.rng.IntN(2)]) // a running node sees it at its next look
		}},
	}
}

// rival is another program that does a fault again and again, and ends later.
func rival(name, what string, fits func(shape) bool) fault {
	return fault{name: name, fits: fits, draw: func(d *drawing) []Step {
		return d.fillAll([]Step{at(0, "fault N rival "+what), at(time.Duration(d.pause()), "fault N rival heal")})
	}}
}

// routesToPeers is for backends that have a route of the node's own for each peer.
func routesToPeers(s shape) bool {
	return s.backend == "host-gw" || s.backend == "vxlan" || s.backend == "ipip"
}

// ports are the UDP ports at which backends receive packets in IPv4, unless a config names others.
var ports = map[string]string{"vxlan": "8472", "udp": "8285", "wireguard": "51820"}

// mayUseTUN is for clusters that have a TUN device, or may change to a backend that has one.
func mayUseTUN(s shape) bool {
	return s.backend == "udp" || s.change && slices.Contains(changesFrom(s), "udp")
}

// hasKey is for clusters whose nodes have a private key of WireGuard, or may change to a backend that has one.
func hasKey(s shape) bool {
	return s.backend == "wireguard" || s.change && slices.Contains(changesFrom(s), "wireguard")
}

// overTunnels is for backends without routes through the uplink: a node that takes another network card for its uplink,
// because it has lost its memory or its address for minutes, rightly removes these.
func overTunnels(f fault) fault {
	f.fits = func(s shape) bool {
		routes := s.direct || s.change && slices.Contains(changesFrom(s), "host-gw")
		return !routes && (s.backend == "vxlan" || s.backend == "udp" || s.backend == "wireguard")
	}
	return f
}

// canSwap is for clusters whose first two nodes are on one segment, and publish addresses of their own.
func canSwap(s shape) bool {
	return firstSegment(s) > 1 && s.family != "v6" && !s.nat && canForget(s)
}

// addressesSwapped lets the first two hosts swap their addresses while their daemons do not run.
func addressesSwapped(d *drawing) []Step {
	one, two := lang.UnderlayAddr(cidr.V4, 0, 1).Addr(), lang.UnderlayAddr(cidr.V4, 0, 2).Addr()
	return []Step{at(0, "stop n1 n2"), at(0, fmt.Sprintf("fault n1 uplink address=%s", two)),
		at(0, fmt.Sprintf("fault n2 uplink address=%s", one)), at(time.Second, "start n1"), at(time.Second, "start n2")}
}

// defaultOfPods gives the bridge of the pods a default route, as a DHCP client does that finds it, takes the uplink's
// away, and restarts the daemon.
func defaultOfPods(d *drawing) []Step {
	steps := d.fillAll([]Step{at(0, "fault N add"), at(0, "fault N default-route off"), at(time.Second, "restart N"),
		at(time.Duration(d.pause()), "fault N remove")})
	for _, i := range []int{0, 3} {
		steps[i].Input = "route 0.0.0.0/0 dev cni0 metric 205 scope 253 proto 16"
	}
	return steps
}

// foreignObject adds a route or an address of another program, and removes it later.
func foreignObject(d *drawing) []Step {
	object := pick(d.rng, "route 10.5.1.16/28 via 192.168.64.253 dev eth0 proto 4", "addr 198.51.100.7/32 dev eth0")
	steps := d.fillAll([]Step{at(0, "fault N add"), at(time.Duration(d.pause()), "fault N remove")})
	for i := range steps {
		steps[i].Input = object
	}
	return steps
}

// extra inserts one of the extras into the plan of one seed in eight, after the steps in which the nodes start.
func (d *drawing) extra(joined int) {
	rng := rand.New(rand.NewPCG(d.plan.Seed, 0xe87a))
	var fit []fault
	for _, f := range extras() {
		if f.fits == nil || f.fits(d.top) {
			fit = append(fit, f)
		}
	}
	if rng.IntN(8) != 0 || len(fit) == 0 {
		return
	}
	e := &drawing{rng: rng, top: d.top, plan: Plan{Seed: d.plan.Seed}}
	f := pick(rng, fit...)
	for i, s := range f.draw(e) {
		after := int64(s.After)
		if i == 0 {
			after, s.Fault = e.pause(), f.name
		}
		s.Line += " may-fail"
		e.step(after, s)
	}
	place := joined + rng.IntN(len(d.plan.Steps)-joined+1)
	d.plan.Steps = slices.Insert(d.plan.Steps, place, e.plan.Steps...)
}
