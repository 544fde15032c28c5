package flannelctl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/trace"
)

// pingSize is the length of an IPv4 packet of ping, in bytes.
const pingSize = 84

// leastSize is the length of the shortest IPv6 packet with data, in bytes. A packet
// cannot have more than mostSize.
const (
	leastSize = 41
	mostSize  = 65535
)

func (a *app) trace() *cobra.Command {
	var f struct {
		subnetFile string
		size       int
	}
	c := &cobra.Command{
		Use:   "trace SRC DST",
		Short: "Follow a packet through this host: where would it end, and why?",
		Long: "trace asks the kernel what it would do with a packet from one address to another, and prints each step: " +
			"forwarding, filters, route, device, neighbour, tunnel, the route of the outer packet. Nothing is sent. SRC and " +
			"DST are addresses of pods or hosts. If SRC is on another node, the packet is traced as it arrives here: run " +
			"the same command on the node of SRC, then on the node of DST. Run it as root.",
		Example: "  flannelctl trace 10.5.1.7 10.5.2.9 --size 1450",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			flow, err := flowOf(args[0], args[1], f.size)
			if err != nil {
				return usageError{err}
			}
			return a.runTrace(c.Context(), f.subnetFile, flow)
		},
	}
	defineSubnetFile(c.Flags(), &f.subnetFile)
	c.Flags().IntVar(&f.size, "size", pingSize, "length of the IP packet in `bytes`")
	return c
}

// flowOf returns the packet that a command line describes.
func flowOf(src, dst string, size int) (flow trace.Flow, err error) {
	flow.Size = size
	flow.Src, err = netip.ParseAddr(src)
	if err != nil {
		return flow, fmt.Errorf("SRC: %w", err)
	}
	flow.Dst, err = netip.ParseAddr(dst)
	switch {
	case err != nil:
		return flow, fmt.Errorf("DST: %w", err)
	case cidr.FamilyOf(flow.Src) != cidr.FamilyOf(flow.Dst):
		return flow, fmt.Errorf("SRC %s and DST %s are of different families", src, dst)
	case size < leastSize || size > mostSize:
		return flow, fmt.Errorf("--size %d: want %d to %d", size, leastSize, mostSize)
	}
	return flow, nil
}

func (a *app) runTrace(ctx context.Context, subnetFile string, flow trace.Flow) error {
	var known trace.Known
	text, err := os.ReadFile(subnetFile)
	if err != nil {
		fmt.Fprintf(a.stderr, "flannelctl: flannel's networks are not known: %v\n", err)
	}
	known.Networks = subnetfile.Networks(text)
	peers, err := daemon.Local(subnetFile).Peers(ctx)
	if err != nil {
		fmt.Fprintf(a.stderr, "flannelctl: the nodes of the cluster are not known: %v\n", err)
	}
	known.Peers = peers.Peers
	k, closeAll, err := openKernel(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	result, err := trace.Walk(ctx, k, flow, known)
	if err != nil {
		return err
	}
	return a.printFound(result)
}

// openKernel opens the kernel of this host.
func openKernel(ctx context.Context) (k *trace.Linux, closeAll func(), err error) {
	handle, err := netlink.NewHandle()
	if err != nil {
		return nil, nil, fmt.Errorf("ask the kernel for routes: %w", err)
	}
	host, err := linux.New(ctx, nil)
	if err != nil {
		handle.Close()
		return nil, nil, err
	}
	filter, err := firewall.New(ctx)
	if err != nil {
		handle.Close()
		return nil, nil, errors.Join(err, host.Close())
	}
	return &trace.Linux{Netlink: handle, Host: host, Firewall: filter}, func() {
		handle.Close()
		_ = host.Close()
		_ = filter.Close()
	}, nil
}
