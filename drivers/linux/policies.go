package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/internal/wholedump"
)

// policies reads and changes the IPsec policies of the kernel (xfrm). A kernel
// loads that part when the socket is first opened, so only a look that asks for
// policies, or an op on one, opens it.
type policies struct {
	handle *wholedump.Handle
	hints  *policyHints
}

// open opens the sockets in the driver's namespace, once.
func (p *policies) open(d *Driver) error {
	if p.handle != nil {
		return nil
	}
	return d.ns.Do(func() (err error) {
		p.handle, err = wholedump.New(unix.NETLINK_XFRM)
		if errors.Is(err, unix.EPROTONOSUPPORT) {
			return fmt.Errorf("this kernel has no IPsec; `modprobe xfrm_user` may load it: %w", driver.ErrUnsupported)
		}
		if err != nil {
			return err
		}
		p.hints, err = listenToPolicies(d.ns, d.hints.out.Send)
		if err != nil {
			p.handle.Close()
			p.handle = nil
		}
		return err
	})
}

// close releases the sockets.
func (p *policies) close() error {
	if p.handle == nil {
		return nil
	}
	p.handle.Close()
	return p.hints.stop()
}

// policyDirs are the kernel's numbers of the directions.
var policyDirs = map[dataplane.Direction]netlink.Dir{
	dataplane.PolicyIn:      netlink.XFRM_DIR_IN,
	dataplane.PolicyOut:     netlink.XFRM_DIR_OUT,
	dataplane.PolicyForward: netlink.XFRM_DIR_FWD,
}

// readPolicies reads the IPv4 policies within the extent. A kernel without IPsec has none.
func (o *observer) readPolicies() error {
	if !o.extent.Policies {
		return nil
	}
	err := o.d.policies.open(o.d)
	if errors.Is(err, driver.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the kernel's IPsec policies: %w", err)
	}
	o.d.policies.hints.watch(o.extent)
	all, err := o.d.policies.handle.XfrmPolicyList(netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("read IPsec policies: %w", err)
	}
	for i := range all {
		if v, ok := policyValue(&all[i]); ok && o.extent.HasPolicy(v.PolicyKey) {
			o.state.AddPolicy(v)
		}
	}
	return nil
}

// policyValue returns the policy as a value of the core. It returns false if the
// policy selects packets by more than their addresses.
func policyValue(p *netlink.XfrmPolicy) (dataplane.Policy, bool) {
	v := dataplane.Policy{Action: dataplane.Allow, Priority: uint32(p.Priority)}
	for dir, number := range policyDirs {
		if p.Dir == number {
			v.Dir = dir
		}
	}
	narrow := p.Proto != 0 || p.SrcPort != 0 || p.DstPort != 0 || p.Ifindex != 0 || p.Ifid != 0 || p.Mark != nil
	if v.Dir == "" || narrow {
		return v, false
	}
	v.Src = policyPrefix(p.Src)
	v.Dst = policyPrefix(p.Dst)
	if p.Action == netlink.XFRM_POLICY_BLOCK {
		v.Action = dataplane.Block
	}
	if len(p.Tmpls) == 0 {
		return v, true
	}
	t := p.Tmpls[0]
	if v.Action == dataplane.Allow {
		v.Action = dataplane.Protect
		v.From = policyAddr(t.Src)
		v.To = policyAddr(t.Dst)
		v.ReqID = uint32(t.Reqid)
	}
	switch {
	case len(p.Tmpls) > 1:
		v.Other = "templates"
	case p.Action == netlink.XFRM_POLICY_BLOCK:
		v.Other = "template"
	case t.Proto != netlink.XFRM_PROTO_ESP:
		v.Other = t.Proto.String()
	case t.Mode != netlink.XFRM_MODE_TUNNEL:
		v.Other = t.Mode.String()
	case t.Spi != 0:
		v.Other = "spi"
	case t.Optional != 0:
		v.Other = "optional"
	}
	return v, true
}

func policyPrefix(n *net.IPNet) netip.Prefix {
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(policyAddr(n.IP), bits)
}

func policyAddr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// applyPolicy performs an op on a policy. An update replaces a policy in one step
// under the kernel's lock: a packet meets the old policy or the new one.
func (d *Driver) applyPolicy(verb dataplane.Verb, v dataplane.Policy) error {
	dir, known := policyDirs[v.Dir]
	switch {
	case !known:
		return fmt.Errorf("unknown direction %q: %w", v.Dir, driver.ErrInvalid)
	case !v.Src.Addr().Is4() || !v.Dst.Addr().Is4():
		return fmt.Errorf("this driver makes policies for IPv4 only: %w", driver.ErrUnsupported)
	case v.Other != "" && verb != dataplane.Delete:
		return fmt.Errorf("this driver makes no policy of form %s: %w", v.Other, driver.ErrUnsupported)
	}
	if err := d.policies.open(d); err != nil {
		return err
	}
	p := &netlink.XfrmPolicy{Dir: dir, Src: ipNet(v.Src), Dst: ipNet(v.Dst), Priority: int(v.Priority)}
	switch v.Action {
	case dataplane.Block:
		p.Action = netlink.XFRM_POLICY_BLOCK
	case dataplane.Protect:
		p.Tmpls = []netlink.XfrmPolicyTmpl{{
			Src: v.From.AsSlice(), Dst: v.To.AsSlice(), Reqid: int(v.ReqID),
			Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL,
		}}
	}
	switch verb {
	case dataplane.Create:
		return d.policies.handle.XfrmPolicyAdd(p)
	case dataplane.Replace:
		return d.policies.handle.XfrmPolicyUpdate(p)
	case dataplane.Delete:
		return d.policies.handle.XfrmPolicyDel(p)
	}
	return fmt.Errorf("unknown verb: %w", driver.ErrInvalid)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
