package oracle

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// ipsec derives the policies in the kernel, and the keys and connections of the IKE
// daemon (interop 6.6: the ipsec backend).
func (d *derivation) ipsec(peers []peer) {
	network, own := d.net.of[cidr.V4], d.own.Key.V4
	addr := d.host.Uplink.Addr[cidr.V4]
	// No packet within the network leaves without encryption, whatever else is missing.
	d.policy(dataplane.PolicyOut, network, network, dataplane.Policy{Action: dataplane.Block, Priority: 102})
	d.want.Put(dataplane.IKEDaemon{Name: "charon"})
	if !own.IsValid() {
		return
	}
	// The kernel asks for a policy also when it hands a decrypted packet to a pod.
	d.policy(dataplane.PolicyOut, network, own, dataplane.Policy{Action: dataplane.Allow, Priority: 101})
	d.sharedKey(addr)
	for _, p := range peers {
		// The template has the number 11 and no priority.
		tunnel := dataplane.Policy{Action: dataplane.Protect, From: addr, To: p.to, ReqID: 11}
		back := dataplane.Policy{Action: dataplane.Protect, From: p.to, To: addr, ReqID: 11}
		d.policy(dataplane.PolicyOut, own, p.subnet, tunnel)
		d.policy(dataplane.PolicyIn, p.subnet, own, back)
		d.policy(dataplane.PolicyForward, p.subnet, own, back)
		d.sharedKey(p.to)
		d.want.Put(dataplane.Conn{
			ConnKey: dataplane.ConnKey{Local: addr, LocalNet: own, RemoteNet: p.subnet, Remote: p.to},
			ESP:     d.net.options.ESPProposal, Encap: d.net.options.UDPEncap,
		})
	}
}

func (d *derivation) policy(dir dataplane.Direction, src, dst netip.Prefix, p dataplane.Policy) {
	p.PolicyKey = dataplane.PolicyKey{Dir: dir, Src: src, Dst: dst}
	d.want.AddPolicy(p)
}

func (d *derivation) sharedKey(owner netip.Addr) {
	d.want.Put(dataplane.SharedKey{
		SharedKeyKey: dataplane.SharedKeyKey{Owner: owner},
		Secret:       dataplane.NewPassphrase(d.net.options.PSK).Name(),
	})
}

// OurPolicy reports whether a policy inside the networks is flannel's: by the number of
// its tunnel, or by the priority of the others.
func OurPolicy(p dataplane.Policy) bool {
	return p.ReqID == 11 || p.Action == dataplane.Block && p.Priority == 102 ||
		p.Action == dataplane.Allow && p.Priority == 101
}

// ike compares the objects of the IKE daemon, which only a world that shows processes
// knows.
func (d Demand) ike(have *dataplane.State) []string {
	s := compare(d.want.IKE, have.IKE, equal, always)
	s = append(s, compareTables(&d.want.SharedKeys, &have.SharedKeys, always)...)
	return append(s, compareTables(&d.want.Conns, &have.Conns, always)...)
}
