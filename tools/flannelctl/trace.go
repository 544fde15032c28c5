package flannelctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/internal/wholedump"
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
	var f traceFlags
	c := &cobra.Command{
		Use:   "trace SRC DST",
		Short: "Follow a packet through the hosts: where would it end, and why?",
		Long: "trace asks the kernel what it would do with a packet from one address to another, and prints each step: " +
			"forwarding, filters of all programs, route, device, neighbour, tunnel, the route of the outer packet. Nothing " +
			"is sent. SRC and " +
			"DST are addresses of pods or hosts. If SRC is on another node, the packet is traced as it arrives here: run " +
			"the same command on the node of SRC, then on the node of DST. With --via, this command does that: it " +
			"begins on the node of SRC, and runs flannelctl on each further node by the command of --via. Run it as root.",
		Example: "  flannelctl trace 10.5.1.7 10.5.2.9 --size 1450\n" +
			"  flannelctl trace 10.5.1.7 10.5.2.9 --proto tcp --dport 443 --via 'ssh root@{}'",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			flow, err := f.flow(args[0], args[1])
			if err != nil {
				return usageError{err}
			}
			return a.runTrace(c.Context(), f, flow)
		},
	}
	defineSubnetFile(c.Flags(), &f.subnetFile)
	flags := c.Flags()
	flags.IntVar(&f.size, "size", pingSize, "length of the IP packet in `bytes`")
	flags.StringVar(&f.proto, "proto", "icmp", "`protocol` of the packet for rules that ask for it: tcp, udp or icmp")
	flags.Uint16Var(&f.port, "dport", 0, "destination `port` of tcp or udp; 0: not known")
	flags.StringVar(&f.via, "via", "", "follow the packet to further nodes by this `command`, such as 'ssh root@{}', in "+
		"which {} stands for the address of the node")
	return c
}

// traceFlags are the flags of the command trace.
type traceFlags struct {
	subnetFile string
	size       int
	proto      string
	port       uint16
	via        string
}

// flow returns the packet that a command line describes.
func (f traceFlags) flow(src, dst string) (flow trace.Flow, err error) {
	flow.Size, flow.Proto = f.size, f.proto
	flow.Port = f.port
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
	case f.size < leastSize || f.size > mostSize:
		return flow, fmt.Errorf("--size %d: want %d to %d", f.size, leastSize, mostSize)
	case f.proto != "tcp" && f.proto != "udp" && f.proto != "icmp":
		return flow, fmt.Errorf("--proto %s: want tcp, udp or icmp", f.proto)
	case f.proto == "icmp" && f.port != 0:
		return flow, fmt.Errorf("--dport %d: packets of ICMP have no port; add --proto tcp or --proto udp", f.port)
	}
	return flow, nil
}

func (a *app) runTrace(ctx context.Context, f traceFlags, flow trace.Flow) error {
	known := a.knownToTrace(ctx, f.subnetFile)
	here := func(ctx context.Context) (*trace.Result, error) { return traceHere(ctx, flow, known) }
	if f.via == "" {
		result, err := here(ctx)
		if err != nil {
			return err
		}
		return a.printFound(result)
	}
	there := func(ctx context.Context, node netip.Addr) (*trace.Result, error) {
		return traceVia(ctx, runProgram, f.via, node, flow)
	}
	return a.printFound(trace.Follow(ctx, flow, known, here, there))
}

// knownToTrace returns what the files and the daemon of this host know.
func (a *app) knownToTrace(ctx context.Context, subnetFile string) trace.Known {
	var known trace.Known
	text, err := os.ReadFile(subnetFile)
	if err != nil {
		fmt.Fprintf(a.stderr, "flannelctl: flannel's networks are not known: %v\n", err)
	}
	known.Networks = subnetfile.Networks(text)
	client := daemon.Local(subnetFile)
	peers, err := client.Peers(ctx)
	if err != nil {
		fmt.Fprintf(a.stderr, "flannelctl: the nodes of the cluster are not known: %v\n", err)
	}
	known.Peers = peers.Peers
	if _, err := client.Status(ctx); err != nil {
		known.Unanswered = true // a busy daemon answers this, and carries packets
		return known
	}
	known.Carried = carried(ctx, client)
	return known
}

// carried returns what the daemon's last look at its host found, or nil.
func carried(ctx context.Context, client *daemon.Client) *dataplane.State {
	answer, err := client.State(ctx)
	if err != nil {
		return nil
	}
	return trace.CarriedBy(answer.Lanes)
}

// traceHere follows the packet through this host.
func traceHere(ctx context.Context, flow trace.Flow, known trace.Known) (*trace.Result, error) {
	k, closeAll, err := openKernel(ctx)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	return trace.Walk(ctx, k, flow, known)
}

// traceVia follows the packet through another host, by a command that runs flannelctl there.
func traceVia(ctx context.Context, run runner, via string, node netip.Addr, flow trace.Flow) (*trace.Result, error) {
	argv := strings.Fields(strings.ReplaceAll(via, "{}", node.String()))
	if !strings.Contains(via, "{}") {
		argv = append(argv, node.String())
	}
	argv = append(argv, append(flow.Command(), "-o", "json")...)
	out, err := run(ctx, argv...)
	result := new(trace.Result)
	if decoded := json.Unmarshal(out, result); decoded == nil && len(result.Hops) > 0 {
		return result, nil // it ends with status 1 if the packet does not arrive
	}
	if err == nil {
		err = errors.New("it printed no trace")
	}
	return nil, fmt.Errorf("run %q: %w", strings.Join(argv, " "), err)
}

// openKernel opens the kernel of this host.
func openKernel(ctx context.Context) (k *trace.Linux, closeAll func(), err error) {
	handle, err := wholedump.New()
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
	return &trace.Linux{Netlink: handle, Host: host, Firewall: filter, Run: runProgram}, func() {
		handle.Close()
		_ = host.Close()
		_ = filter.Close()
	}, nil
}
