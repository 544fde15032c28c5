package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

const forwarding4 = "net/ipv4/ip_forward"

// logged returns the texts of all events of a kind.
func (w *world) logged(kind string) (texts []string) {
	for _, e := range w.events {
		if e.Kind == kind {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// withDevice adds the device of vxlan to the facts.
func (w *world) withDevice() {
	w.facts.Links = append(w.facts.Links, driver.Link{Name: "flannel.1", Index: 3, MTU: 1450})
}

// forwardsNoneBy keeps the host from forwarding IPv4 packets that come in by a
// link, and lets the node look.
func (w *world) forwardsNoneBy(link string) {
	w.noForwarding[cidr.V4] = link
	w.run(Input{Lanes: [LaneCount]LaneInput{HostLane: {Hint: true}}})
	w.pass(time.Second)
}

func TestNotReadyWithoutForwarding(t *testing.T) {
	w := readyWorld(t)
	w.withDevice()
	file := w.files[SubnetFile]
	w.forwardsNoneBy(anyLink)
	s := w.n.Status()
	reasons := strings.Join(s.Reasons, "; ")
	if s.Ready || !strings.Contains(reasons, "set net.ipv4.ip_forward to 1, or start flanneld with --ip-forward") {
		t.Errorf("ready %t, reasons %q, want the setting and the remedy", s.Ready, reasons)
	}
	if s.FailingFor > 0 || w.files[SubnetFile] != file {
		t.Errorf("failing for %d, subnet file %q: want a host that is as desired", s.FailingFor, w.files[SubnetFile])
	}
	w.pass(5 * time.Minute)
	if texts := w.logged("forwarding"); len(texts) != 1 {
		t.Errorf("logged %q, want one line", texts)
	}
	w.forwardsNoneBy("")
	w.wantReady()
	if texts := w.logged("forwarding"); len(texts) != 2 {
		t.Errorf("logged %q, want a second line", texts)
	}
}

// TestForwardingOfALink switches off the forwarding of packets that come in by one
// link, as net.ipv4.conf.default.forwarding does for every new device. Only the link
// by which the peers' packets come in matters.
func TestForwardingOfALink(t *testing.T) {
	const hostGW = `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`
	for _, c := range []struct{ config, link, reason string }{
		{vxlanConfig, "eth0", ""},
		{vxlanConfig, "flannel.1", "the host forwards no IPv4 packet that comes in by flannel.1, so none passes between " +
			"pods: set net/ipv4/conf/flannel.1/forwarding to 1"},
		{hostGW, "eth0", "the host forwards no IPv4 packet that comes in by eth0, so none passes between pods: " +
			"set net/ipv4/conf/eth0/forwarding to 1"},
	} {
		w := newWorld(t, c.config)
		w.withDevice()
		w.tell()
		w.pass(time.Second)
		w.forwardsNoneBy(c.link)
		s := w.n.Status()
		if reasons := strings.Join(s.Reasons, "; "); reasons != c.reason || s.Ready != (c.reason == "") {
			t.Errorf("%s of %s: ready %t, reasons %q, want %q", c.link, c.config, s.Ready, reasons, c.reason)
		}
		w.forwardsNoneBy("")
		w.wantReady()
	}
}

// TestForwardingOfPods switches off the forwarding of packets that come in by the bridge of this node's
// pods, which is not flannel's: the node names the setting and changes nothing.
func TestForwardingOfPods(t *testing.T) {
	const ofBridge = "the host forwards no IPv4 packet that comes in by cni0, so its pods reach nothing outside it: " +
		"set net/ipv4/conf/cni0/forwarding to 1"
	for _, c := range []struct {
		name, off, reason string
		bridge            driver.Link
	}{
		{"bridge", "cni0", ofBridge, driver.Link{Up: true}},
		{"bridge that is down", "cni0", "", driver.Link{}},
		{"loopback", "cni0", "", driver.Link{Up: true, Loopback: true}},
		{"other link", "eth0", "", driver.Link{Up: true}},
		{"host", anyLink, "the host forwards no IPv4 packet, so none passes between pods: set net.ipv4.ip_forward to 1, " +
			"or start flanneld with --ip-forward", driver.Link{Up: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := readyWorld(t)
			w.withDevice()
			bridge := c.bridge
			own, _ := w.n.Holding()
			bridge.Name = "cni0"
			bridge.Addrs = []driver.LinkAddr{{Prefix: netip.PrefixFrom(own.V4.Addr().Next(), own.V4.Bits())}}
			w.facts.Links = append(w.facts.Links, bridge)
			sysctls := len(w.host.Sysctls)
			w.forwardsNoneBy(c.off)
			s := w.n.Status()
			if reasons := strings.Join(s.Reasons, "; "); reasons != c.reason || s.Ready != (c.reason == "") {
				t.Errorf("ready %t, reasons %q, want %q", s.Ready, reasons, c.reason)
			}
			if got := strings.Join(w.logged("forwarding"), "; "); got != c.reason {
				t.Errorf("logged %q, want %q", got, c.reason)
			}
			w.forwardsNoneBy("")
			w.wantReady()
			if len(w.host.Sysctls) != sysctls {
				t.Errorf("the node has changed settings: %v", w.host.Sysctls)
			}
		})
	}
}

// TestForwardingOfPodsInIPv6 lets the device forward IPv6 packets on a host that forwards none otherwise
// (Linux 6.17, force_forwarding).
func TestForwardingOfPodsInIPv6(t *testing.T) {
	w := newWorld(t, `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`)
	w.tell()
	w.pass(time.Second)
	own, _ := w.n.Holding()
	w.facts.Links = append(w.facts.Links, driver.Link{Name: "flannel-v6.1", Index: 3, Up: true}, driver.Link{
		Name: "cni0", Index: 4, Up: true, Addrs: []driver.LinkAddr{{Prefix: own.V6}},
	})
	w.noForwarding[cidr.V6] = "cni0"
	w.run(Input{Lanes: [LaneCount]LaneInput{HostLane: {Hint: true}}})
	w.pass(time.Second)
	const want = "the host forwards no IPv6 packet, so its pods reach nothing outside it: " +
		"set net.ipv6.conf.all.forwarding to 1, or start flanneld with --ip-forward"
	if got := strings.Join(w.n.Status().Reasons, "; "); got != want {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

// TestForwardingOfTheConfigsFamilies: IPv6 may be off where no pod has IPv6.
func TestForwardingOfTheConfigsFamilies(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.withDevice()
	w.noForwarding[cidr.V6] = anyLink
	w.tell()
	w.pass(time.Second)
	w.wantReady()
}

func TestForwardingIsHealed(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.IPForward = true })
	w.host.AddSysctl(dataplane.Sysctl{Path: forwarding4, Value: "0"})
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if got := w.host.Sysctls[forwarding4].Value; got != "1" {
		t.Errorf("%s is %s at first, want 1", forwarding4, got)
	}
	w.host.AddSysctl(dataplane.Sysctl{Path: forwarding4, Value: "0"})
	w.pass(time.Minute)
	if got := w.host.Sysctls[forwarding4].Value; got != "1" {
		t.Errorf("%s is %s later, want 1", forwarding4, got)
	}
}

// TestForwardingIsReadOnly is a container with a read-only /proc/sys.
func TestForwardingIsReadOnly(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.IPForward = true })
	w.applyErr = func(op dataplane.Op) error {
		if s, ok := op.Object.(dataplane.Sysctl); ok && s.Path == forwarding4 {
			return fmt.Errorf("%s: %w", op, driver.ErrDenied)
		}
		return nil
	}
	w.withDevice()
	w.host.AddSysctl(dataplane.Sysctl{Path: forwarding4, Value: "0"})
	w.noForwarding[cidr.V4] = anyLink
	w.tell()
	w.pass(time.Minute)
	reasons := strings.Join(w.n.Status().Reasons, "; ")
	if !strings.Contains(reasons, "set net.ipv4.ip_forward to 1, which flanneld may not do") {
		t.Errorf("reasons %q, want the setting that flanneld may not change", reasons)
	}
	if w.files[SubnetFile] == "" {
		t.Error("no subnet file")
	}
}

// TestForwardingIsBusy lets the kernel refuse the setting for now.
func TestForwardingIsBusy(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.IPForward = true })
	w.withDevice()
	w.applyErr = func(op dataplane.Op) error {
		if s, ok := op.Object.(dataplane.Sysctl); ok && s.Path == forwarding4 {
			return fmt.Errorf("%s: %w", op, driver.ErrBusy)
		}
		return nil
	}
	w.host.AddSysctl(dataplane.Sysctl{Path: forwarding4, Value: "0"})
	w.noForwarding[cidr.V4] = anyLink
	w.tell()
	w.pass(time.Minute)
	reasons := strings.Join(w.n.Status().Reasons, "; ")
	if !strings.Contains(reasons, "set net.ipv4.ip_forward to 1, which flanneld is about to do") {
		t.Errorf("reasons %q, want the setting that flanneld is about to change", reasons)
	}
}
