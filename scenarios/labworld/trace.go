package labworld

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/tools/trace"
)

// Kernel implements [lang.TraceHost].
func (n *netnsNode) Kernel(ctx context.Context) (k trace.Kernel, done func(), err error) {
	space := netns.NsHandle(n.node.NamespaceFD())
	host, err := linux.Open(ctx, space, nil)
	if err != nil {
		return nil, nil, err
	}
	filter, err := firewall.Open(ctx, space)
	if err != nil {
		return nil, nil, errors.Join(err, host.Close())
	}
	run := func(ctx context.Context, argv ...string) ([]byte, error) {
		out, err := n.node.Shell(ctx, strings.Join(argv, " "))
		return []byte(out), err
	}
	return &trace.Linux{Netlink: n.node.Netlink(), Host: host, Firewall: filter, Run: run}, func() {
		_ = host.Close()
		_ = filter.Close()
	}, nil
}

// PodAddr implements [lang.TraceHost].
func (n *netnsNode) PodAddr(f cidr.Family) netip.Addr {
	if len(n.node.Pods) == 0 {
		return netip.Addr{}
	}
	return n.node.Pods[0].Addr(f)
}
