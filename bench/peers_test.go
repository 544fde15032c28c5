package bench

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/pace"
)

const (
	network = `{"Network":"10.0.0.0/8","Backend":{"Type":"vxlan"}}`
	// gatewayNetwork is the same for host-gw.
	gatewayNetwork = `{"Network":"10.0.0.0/8","Backend":{"Type":"host-gw"}}`

	device = "flannel.1"
	limit  = 3 * time.Minute // of a benchmark, on a machine that is not emulated

	// noProbes lets a daemon rest: the hosts of its peers do not exist, and it would
	// probe them all the time.
	noProbes = "--probe-interval=0"
)

// extent covers the whole overlay on a host.
var extent = dataplane.Extent{Links: []string{device}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}

// peer returns the record of a node that does not exist. Its public address
// lies outside the lab, so no packet of the lab goes to it.
func peer(i int) lease.Lease {
	return lease.Lease{
		Key: lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(1 + i>>8), byte(i), 0}), 24)},
		Attrs: lease.Attrs{
			PublicIP: netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), BackendType: "vxlan",
			BackendData: vxlanData(dataplane.MAC{0xc6, 0, 0, 0, byte(i >> 8), byte(i)}),
		},
	}
}

func vxlanData(mac dataplane.MAC) []byte { return fmt.Appendf(nil, `{"VNI":1,"VtepMAC":"%s"}`, mac) }

// gatewayPeer is peer for host-gw. Its public address is in 172.16.0.0/12, which has to be on
// the node's own segment.
func gatewayPeer(i int) lease.Lease {
	p := peer(i)
	p.Attrs.BackendType, p.Attrs.BackendData = "host-gw", nil
	return p
}

// preload stores the records of that many peers.
func preload(ctx context.Context, b *testing.B, store *harness.Store, peers int, peer func(int) lease.Lease) {
	b.Helper()
	const most = 128 // etcd takes no more in one transaction
	for first := 0; first < peers; first += most {
		var puts []clientv3.Op
		for i := first; i < min(first+most, peers); i++ {
			p := peer(i)
			puts = append(puts, clientv3.OpPut(harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))))
		}
		if _, err := store.Client().Txn(ctx).Then(puts...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// newLab makes a lab whose store holds that many peers, and a context for all
// work in it. Both end with the benchmark.
func newLab(b *testing.B, nodes, peers int) (context.Context, *harness.Lab) {
	b.Helper()
	return newLabOf(b, nodes, peers, network, peer)
}

// newLabOf is newLab with another network config and other records.
func newLabOf(
	b *testing.B, nodes, peers int, network string, peer func(int) lease.Lease,
) (context.Context, *harness.Lab) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), pace.Scale(limit))
	b.Cleanup(cancel)
	daemon, err := harness.BuildDaemon(ctx)
	if err != nil {
		b.Fatal(err)
	}
	lab, err := harness.New(ctx, harness.Options{Nodes: nodes, Config: network, Daemon: daemon})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	})
	preload(ctx, b, lab.Store, peers, peer)
	return ctx, lab
}

// start starts a node's daemon and waits until it is ready and the kernel holds
// the objects of that many peers.
func start(ctx context.Context, b *testing.B, n *harness.Node, peers int, args ...string) {
	b.Helper()
	state := startAny(ctx, b, n, args...)
	if min(state.Routes.Len(), state.Neighs.Len(), state.FDB.Len()) < peers {
		b.Fatalf("ready with %d routes, %d neighbours and %d FDB entries of %d peers",
			state.Routes.Len(), state.Neighs.Len(), state.FDB.Len(), peers)
	}
}

// startAny starts a node's daemon, waits until it is ready, and returns the objects on the host.
func startAny(ctx context.Context, b *testing.B, n *harness.Node, args ...string) *dataplane.State {
	b.Helper()
	boot(ctx, b, n, args...)
	state, err := n.State(ctx, extent)
	if err != nil {
		b.Fatal(err)
	}
	return state
}

// boot starts a node's daemon and waits until it is ready.
func boot(ctx context.Context, b *testing.B, n *harness.Node, args ...string) {
	b.Helper()
	if err := n.Start(args...); err != nil {
		b.Fatal(err)
	}
	until(ctx, b, "the daemon to be ready", func() bool {
		if !n.Running() {
			b.Fatalf("the daemon has ended (%v):\n%s", n.ExitStatus(), n.LogTail(20))
		}
		// The daemon writes the subnet file just before; looking costs it
		// nothing.
		if _, err := os.Stat(n.SubnetFile()); err != nil {
			return false
		}
		ready, _ := n.Ready(ctx)
		return ready
	})
}
