package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// inProcess returns the host of tunnelled with its device in flanneld's process: the kernel knows a TUN
// device, and the daemon its peer, with a session.
func inProcess(t *testing.T) (*fakeKernel, Known) {
	t.Helper()
	k := tunnelled(t)
	carried := k.view.State
	state := dataplane.NewState()
	state.AddLink(dataplane.Link{Name: "flannel-wg", MTU: 1420, Up: true, Params: dataplane.WireGuard{Userspace: true}})
	k.view.State = state
	now := known
	now.Carried = carried
	now.Peers = nil
	for _, p := range known.Peers {
		p.Ways = []node.Way{{Subnet: p.Subnet.V4, Type: "tunnel", Link: "flannel-wg", Session: "alive"}}
		now.Peers = append(now.Peers, p)
	}
	return k, now
}

// TestWireGuardInProcess follows a packet into a device that only the daemon knows.
func TestWireGuardInProcess(t *testing.T) {
	for _, c := range []struct {
		name, reason, step, says string
		harm                     func(known *Known)
	}{
		{"well", "", "leave", "becomes 144 bytes to 192.168.64.2 (WireGuard, UDP port 51820)", func(*Known) {}},
		{"no session", "", "leave", "no handshake with 192.168.64.2 in the last three minutes",
			func(known *Known) { known.Peers[0].Ways[0].Session = "none" }},
		{"no peer", "wg_no_peer", "tunnel", "flannel-wg has no peer for 10.5.2.7",
			func(known *Known) { known.Carried = dataplane.NewState() }},
		{"no endpoint", "wg_no_endpoint", "tunnel", "does not know where its peer", func(known *Known) {
			known.Carried = dataplane.NewState()
			peer := dataplane.WGPeer{WGPeerKey: dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{2}}}
			peer.Allowed[cidr.V4] = netip.MustParsePrefix("10.5.2.0/24")
			known.Carried.AddWGPeer(peer)
		}},
		{"a daemon of another version", "", "leave", "(by flanneld itself, which reads flannel-wg)",
			func(known *Known) { known.Carried = nil }},
		{"no daemon", "no_process", "tunnel", "flanneld itself carries the packets of flannel-wg, and does not answer",
			func(known *Known) { *known = Known{Networks: known.Networks, Unanswered: true} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, known := inProcess(t)
			c.harm(&known)
			r, err := Walk(t.Context(), k, Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84}, known)
			if err != nil {
				t.Fatal(err)
			}
			last := r.Hops[len(r.Hops)-1]
			ended := r.Reason == c.reason && last.Step == c.step && (r.Reason == "" || r.Remedy != "")
			if !ended || !strings.Contains(text(t, r), c.says) {
				t.Errorf("want %q at %s, and %q:\n%s", c.reason, c.step, c.says, text(t, r))
			}
		})
	}
}

// TestBoundAddress follows a packet into a TUN device whose reader sends from an address that the host may have lost.
func TestBoundAddress(t *testing.T) {
	for _, c := range []struct{ local, reason, says string }{
		{"192.168.64.1:8285", "", "(by flanneld itself, which reads flannel-wg)"},
		{"192.168.64.9:8285", "bad_source", "sends from 192.168.64.9, which is no address of this host"},
	} {
		t.Run(c.local, func(t *testing.T) {
			k, known := inProcess(t)
			known.Carried = dataplane.NewState()
			known.Carried.AddProxy(dataplane.Proxy{Link: "flannel-wg", Local: netip.MustParseAddrPort(c.local)})
			k.view.State.AddLink(dataplane.Link{Name: "flannel-wg", MTU: 1472, Up: true, Params: dataplane.TUN{}})
			r, err := Walk(t.Context(), k, Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7"), Size: 84}, known)
			if err != nil {
				t.Fatal(err)
			}
			if r.Reason != c.reason || !strings.Contains(text(t, r), c.says) {
				t.Errorf("want %q, and %q:\n%s", c.reason, c.says, text(t, r))
			}
		})
	}
}
