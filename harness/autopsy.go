package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
)

// Loss says where an echo was last seen, and why it was lost, as far as the
// kernel there can be asked: the kernel does not report the fate of a packet,
// but its tables say what it would do with one.
type Loss struct {
	Host   string
	Answer string // "": the request was lost; "reply": the answer to it
	Reason string // a drop reason of the simulator; "unknown"
	Detail string
}

// soon is the age at which an echo without an answer counts as lost for an
// autopsy: flanneld repairs most faults before the sender gives up.
const soon = 250 * time.Millisecond

// follower follows one echo.
type follower struct {
	lab  *Lab
	tap  *tap
	from *Host

	mu    sync.Mutex
	timer *time.Timer
	way   []Sighting
	early Loss // the time at which way was read
}

func (h *Host) follow(key echoKey, dst netip.Addr) (*follower, error) {
	t, err := h.lab.newTap(key)
	if err != nil {
		return nil, err
	}
	f := &follower{lab: h.lab, tap: t, from: h}
	f.timer = time.AfterFunc(soon, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.way = f.tap.sightings()
		f.early = f.lab.autopsy(f.from, dst, f.way)
	})
	return f, nil
}

// end returns the way of the echo and its answer and, if one of them was lost,
// the reason.
func (f *follower) end(dst netip.Addr, lost bool) ([]Sighting, *Loss) {
	f.timer.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.tap.close()
	way := f.tap.sightings()
	if !lost {
		return way, nil
	}
	loss := f.early
	if len(way) != len(f.way) || loss.Reason == "" {
		loss = f.lab.autopsy(f.from, dst, way)
	}
	return way, &loss
}

// autopsy asks the host that saw a packet last what it would do with it.
func (l *Lab) autopsy(from *Host, dst netip.Addr, way []Sighting) Loss {
	// An error message only reports a loss, and a frame for another MAC reports
	// none.
	way = slices.DeleteFunc(slices.Clone(way), func(s Sighting) bool { return s.Answer == "error" })
	if len(way) == 0 {
		return Loss{Host: from.Name, Reason: "no_route"}.with(from.wouldSend(dst, netip.Addr{}, 0, 0))
	}
	last := way[len(way)-1]
	loss := Loss{Host: last.Host, Answer: last.Answer, Reason: "unknown"}
	h := l.host(last.Host)
	switch link, err := h.nl.LinkByName(last.Device); {
	case h.switches() && last.Out:
		return loss.with("wire_loss", fmt.Sprintf("it was put on the wire to %s, and did not arrive there", last.Device))
	case h.switches():
		return loss.with("wire_loss", fmt.Sprintf("it came in by the wire of %s and was not passed on", last.Device))
	case err != nil:
		return loss.with("link_down", last.Device+" is gone")
	case last.Other:
		return loss.with("not_mine", fmt.Sprintf("%s was sent a frame for %s; its MAC is %s", last.Device,
			last.packet.to, link.Attrs().HardwareAddr))
	case last.Out:
		return loss.with(l.afterSending(h, link, last))
	case last.packet.port != 0 && h.owns(last.packet.dst):
		return loss.with(h.wouldUnpack(last.packet))
	default:
		return loss.with(h.wouldSend(last.packet.dst, last.packet.src, link.Attrs().Index, last.packet.size))
	}
}

func (l Loss) with(reason, detail string) Loss {
	if reason != "" {
		l.Reason = reason
	}
	l.Detail = detail
	return l
}

func (l *Lab) host(name string) *Host {
	i := slices.IndexFunc(l.hosts, func(h *Host) bool { return h.Name == name })
	return l.hosts[i]
}

func (h *Host) owns(a netip.Addr) bool {
	addrs, err := h.nl.AddrList(nil, netlink.FAMILY_ALL)
	return err == nil && slices.ContainsFunc(addrs, func(o netlink.Addr) bool { return o.IP.Equal(a.AsSlice()) })
}

// afterSending returns the fate of a packet that a device was given to send.
func (l *Lab) afterSending(h *Host, link netlink.Link, s Sighting) (reason, detail string) {
	name := link.Attrs().Name
	switch link.Type() {
	case "vxlan":
		return h.wouldPack(link, s.packet)
	case "tuntap", "tun":
		return "", "the daemon received it and did not send it on: does the daemon run, and does it know this destination?"
	}
	if reason, detail := unusable(link); reason != "" {
		return reason, detail
	}
	if s.packet.to != nil && !l.anyMAC(s.packet.to) {
		return "mac_unknown", fmt.Sprintf("%s sent it to %s, which no device has", name, s.packet.to)
	}
	return "wire_loss", fmt.Sprintf("%s sent it, and no host received it", name)
}

// unusable returns the reason why a device sends nothing.
func unusable(link netlink.Link) (reason, detail string) {
	a := link.Attrs()
	switch {
	case a.Flags&net.FlagUp == 0:
		return "link_down", a.Name + " is down"
	case a.Flags&net.FlagRunning == 0:
		return "no_carrier", a.Name + " has no carrier"
	}
	return "", ""
}

func (l *Lab) anyMAC(mac net.HardwareAddr) bool {
	return slices.ContainsFunc(l.hosts, func(h *Host) bool {
		links, err := h.nl.LinkList()
		return err == nil && slices.ContainsFunc(links,
			func(o netlink.Link) bool { return o.Attrs().HardwareAddr.String() == mac.String() })
	})
}

// wouldPack says how a tunnel device would encapsulate a frame.
func (h *Host) wouldPack(link netlink.Link, p packet) (reason, detail string) {
	if reason, detail := unusable(link); reason != "" {
		return reason, detail
	}
	entries, err := h.nl.NeighList(link.Attrs().Index, unix.AF_BRIDGE)
	if err != nil {
		return "", fmt.Sprintf("the forwarding entries cannot be read: %v", err)
	}
	i := slices.IndexFunc(entries,
		func(n netlink.Neigh) bool { return n.HardwareAddr.String() == p.to.String() && n.IP != nil })
	if i < 0 {
		return "fdb_missing", fmt.Sprintf("%s dev %s", p.to, link.Attrs().Name)
	}
	remote, _ := netip.AddrFromSlice(entries[i].IP)
	remote = remote.Unmap()
	source, _ := netip.AddrFromSlice(link.(*netlink.Vxlan).SrcAddr)
	source = source.Unmap()
	if source.IsValid() && !h.owns(source) {
		return "bad_source", fmt.Sprintf("%s sends from %s, which is not an address of this host", link.Attrs().Name, source)
	}
	reason, detail = h.wouldSend(remote, netip.Addr{}, 0, 0)
	return reason, fmt.Sprintf("towards %s, the host behind %s: %s", remote, p.to, detail)
}

// wouldUnpack says what a host would do with a tunnel packet addressed to it.
func (h *Host) wouldUnpack(p packet) (reason, detail string) {
	links, err := h.nl.LinkList()
	if err != nil {
		return "", fmt.Sprintf("the devices cannot be read: %v", err)
	}
	for _, link := range links {
		v, ok := link.(*netlink.Vxlan)
		if !ok || v.Port != int(p.port) {
			continue
		}
		switch reason, detail := unusable(v); {
		case v.VxlanId != int(p.vni):
			return "vni_mismatch", fmt.Sprintf("it is for VNI %d, and %s has %d", p.vni, v.Name, v.VxlanId)
		case reason != "":
			return reason, detail
		case p.inner.String() != v.HardwareAddr.String():
			return "not_mine", fmt.Sprintf("the frame within is for %s; the MAC of %s is %s", p.inner, v.Name, v.HardwareAddr)
		}
		return "", v.Name + " should have taken it: perhaps its forwarding entries name another host as the sender"
	}
	return "no_listener", fmt.Sprintf("no tunnel device on port %d, or a daemon that did not deliver it", p.port)
}

// wouldSend says what a host would do with a packet, as `ip route get` does.
// Index 0 is a packet of the host itself, size 0 an unknown size.
func (h *Host) wouldSend(dst, src netip.Addr, index, size int) (reason, detail string) {
	o := &netlink.RouteGetOptions{IifIndex: index}
	if index != 0 {
		o.SrcAddr = src.AsSlice()
	}
	routes, err := h.nl.RouteGetWithOptions(dst.AsSlice(), o)
	switch {
	case errors.Is(err, unix.EINVAL):
		return "blackhole", "to " + dst.String()
	case errors.Is(err, unix.EXDEV):
		return "rp_filter", fmt.Sprintf("from %s", src)
	case err != nil || len(routes) == 0:
		return "no_route", fmt.Sprintf("to %s (%v)", dst, err)
	case routes[0].Type == unix.RTN_BLACKHOLE:
		return "blackhole", "to " + dst.String()
	case routes[0].Type != unix.RTN_UNICAST && routes[0].Type != unix.RTN_LOCAL:
		return "no_route", "to " + dst.String()
	}
	route := routes[0]
	link, err := h.nl.LinkByIndex(route.LinkIndex)
	if err != nil {
		return "", err.Error()
	}
	if route.Type == unix.RTN_LOCAL {
		return "", fmt.Sprintf("%s is the host's own: it arrived, and no answer followed", dst)
	}
	if reason, detail := unusable(link); reason != "" {
		return reason, detail
	}
	if size > link.Attrs().MTU {
		return "too_big", fmt.Sprintf("%d bytes, and %s takes %d", size, link.Attrs().Name, link.Attrs().MTU)
	}
	next := dst
	if route.Gw != nil {
		next, _ = netip.AddrFromSlice(route.Gw)
		next = next.Unmap()
	}
	return h.wouldResolve(link, next)
}

// wouldResolve says whether a host knows the MAC of a next hop.
func (h *Host) wouldResolve(link netlink.Link, next netip.Addr) (reason, detail string) {
	where := fmt.Sprintf("%s dev %s", next, link.Attrs().Name)
	if link.Attrs().RawFlags&unix.IFF_NOARP == 0 || link.Type() == "vxlan" {
		neighs, err := h.nl.NeighList(link.Attrs().Index, [2]int{unix.AF_INET, unix.AF_INET6}[cidr.FamilyOf(next)])
		i := slices.IndexFunc(neighs, func(n netlink.Neigh) bool { return n.IP.Equal(next.AsSlice()) })
		const bad = netlink.NUD_FAILED | netlink.NUD_INCOMPLETE
		switch unknown := err == nil && (i < 0 || neighs[i].State&bad != 0); {
		case unknown && link.Type() == "vxlan":
			return "neigh_missing", where
		case unknown && i >= 0:
			return "neigh_failed", where
		}
	}
	return "", fmt.Sprintf("the kernel has a route, by %s, and did not send it there: a filter may have dropped it", where)
}

// trace sends one ping and follows its packet.
func (p *pinger) trace(ctx context.Context, h *Host, result *PingResult) error {
	f, err := h.follow(echoKey{p.id, 0}, p.dst)
	if err != nil {
		return err
	}
	rtt, source, err := p.echo(ctx, 0)
	result.RTT, result.Source = rtt, source
	result.Way, result.Loss = f.end(p.dst, err != nil)
	return err
}
