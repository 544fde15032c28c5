package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/agent/metrics"
	"github.com/flanneld/flannel/core/control"
	rules "github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/charon"
	"github.com/flanneld/flannel/drivers/linux/commands"
	"github.com/flanneld/flannel/drivers/linux/echo"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/internal/cnicalls"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// daemon opens the parts of a node in the order of interop 1.5 (start-up), and
// runs it. The health listener comes first: a supervisor asks from the start.
func daemon(ctx context.Context, o *options) node.Exit {
	nodes := o.roster()
	if o.healthzPort > 0 {
		server, err := agent.Serve(ctx, o.listen(nodes), nodes)
		if err != nil {
			return failed(err)
		}
		// The listener closes at the first signal, before the slower parts end.
		defer context.AfterFunc(ctx, func() { closing("health listener", server.Close()) })()
	}
	if o.several() {
		return o.runNetworks(ctx, nodes)
	}
	health, reports := nodes.All()[0], newSystemd()
	reports.join("")
	reports.known()
	socket := o.serveSocket(ctx, health)
	defer func() { closing("control socket", socket.Close()) }()
	ctx, store, err := openStore(ctx, o)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer store.close()
	options := agent.Options{
		Store: store.Store, Health: health, Socket: socket,
		OnReady: store.ready, OnPulse: reports.of(""), Notify: store.notify,
	}
	if filter := openFirewall(ctx); filter != nil {
		options.Lanes[node.FirewallLane] = filter
		defer func() { closing("firewall", filter.Close()) }()
	}
	return orDied(ctx, o.runNode(ctx, options))
}

// orDied returns the exit of a run, or that of the embedded etcd if it has ended.
func orDied(ctx context.Context, exit node.Exit) node.Exit {
	if died := new(embeddedDied); errors.As(context.Cause(ctx), &died) {
		return failed(died)
	}
	return exit
}

// roster returns the nodes that are known from the start: the unnamed one, or none.
func (o *options) roster() *agent.Roster {
	if !o.several() {
		return agent.NewRoster(&agent.Health{Version: buildversion.Version()})
	}
	nodes := agent.NewRoster()
	nodes.Wait("starting")
	return nodes
}

// listen returns where and what the health listener answers.
func (o *options) listen(nodes *agent.Roster) agent.Listen {
	listen := agent.Listen{
		Addr:       net.JoinHostPort(o.healthzIP, strconv.Itoa(o.healthzPort)),
		OpenStatus: o.healthzStatus,
	}
	if o.metrics {
		listen.Metrics = &scraped{nodes: nodes, perPeer: o.metricsPerPeer, calls: o.cniCalls}
	}
	return listen
}

// scraped answers scrapes about the nodes of the moment.
type scraped struct {
	nodes   *agent.Roster
	perPeer bool
	calls   func(network string) func() cnicalls.Calls

	mu      sync.Mutex
	of      []*agent.Health // that handler answers for
	handler http.Handler
}

// ServeHTTP implements [http.Handler].
func (s *scraped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if nodes := s.nodes.All(); s.handler == nil || !slices.Equal(nodes, s.of) {
		sources := make([]metrics.Source, len(nodes))
		for i, h := range nodes {
			sources[i] = metrics.Source{Node: h, Network: h.Network, Calls: s.calls(h.Network)}
		}
		s.of, s.handler = nodes, metrics.Handler(s.perPeer, sources...)
	}
	handler := s.handler
	s.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// cniCalls returns a reader of the calls that the CNI plugin has counted for a network. It logs each
// fault once.
func (o *options) cniCalls(network string) func() cnicalls.Calls {
	if network != "" {
		o = o.ofNetwork(network)
	}
	var mu sync.Mutex
	last := ""
	return func() cnicalls.Calls {
		mu.Lock()
		defer mu.Unlock()
		calls, err := cnicalls.Read(hostpaths.CNICalls(o.subnetFile))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != last && err != nil {
			klog.Warning(text)
		}
		last = text
		return calls
	}
}

// openFirewall returns the packet filter, or nil: the node runs on without one. If it
// wants rules, it is not ready.
func openFirewall(ctx context.Context) *firewall.Firewall {
	filter, err := firewall.New(ctx)
	if err != nil {
		klog.Warningf("continuing without a firewall: %v", err)
		return nil
	}
	return filter
}

// runNode opens what a node has for itself, and runs the node.
func (o *options) runNode(ctx context.Context, options agent.Options) node.Exit {
	host, err := linux.New(ctx, o.secrets())
	if err != nil {
		return interrupted(ctx, fmt.Errorf("open the kernel's network configuration: %w", err))
	}
	defer func() { closing("kernel", host.Close()) }()
	options.Lanes[node.HostLane] = host

	options.Node, options.SubnetFile = o.nodeOptions(), o.subnetFile
	options.StateFile, options.FormerStateFile = o.statePaths()
	options.PodBridges = o.cni.PodBridges
	runner, warning := commands.New(hostpaths.Record(options.StateFile))
	if warning != nil {
		klog.Warning(warning)
	}
	options.Lanes[node.CommandsLane] = runner
	defer func() { closing("record of commands", runner.Close()) }()
	ike, err := charon.New(o.charonOptions())
	if err != nil {
		return failed(err)
	}
	options.Lanes[node.IKELane] = ike
	defer func() { closing("charon", ike.Close()) }()
	options.Lanes[node.CloudLane] = cloud.NewLane(o.cloudClient)
	if o.probeInterval > 0 {
		probes := echo.New()
		options.Probes = probes
		defer func() { closing("sockets of probes", probes.Close()) }()
	}
	return agent.Run(ctx, options)
}

// serveSocket answers operators' tools beside the subnet file until ctx ends, or the socket is closed.
// The node runs on without a socket.
func (o *options) serveSocket(ctx context.Context, health *agent.Health) *agent.Socket {
	socket := agent.NewSocket(control.Socket(o.subnetFile), health)
	if news := socket.Keep(ctx); news != nil {
		klog.Warning(news.Text)
	}
	context.AfterFunc(ctx, func() { closing("control socket", socket.Close()) })
	return socket
}

// interrupted turns an error into an orderly end if a signal caused it.
func interrupted(ctx context.Context, err error) node.Exit {
	if ctx.Err() != nil {
		return node.Exit{Status: statusOK, Reason: fmt.Sprintf("shutting down: %v", context.Cause(ctx))}
	}
	return failed(err)
}

func (o *options) storeOptions(endpoints []string) etcd.Options {
	return o.etcd.Options(endpoints, slog.New(logr.ToSlogHandler(klog.Background())))
}

func (o *options) nodeOptions() node.Options {
	return node.Options{
		Uplink: uplink.Options{
			Ifaces: o.ifaces, Regexes: o.ifaceRegexes, CanReach: o.ifaceCanReach,
			PublicIP: o.publicIP, PublicIPv6: o.publicIPv6, FromNode: o.ifaceFromNode,
		},
		Firewall:     rules.Options{Masquerade: o.ipMasq, NoRandom: o.ipMasqNoRandom, Forward: o.forwardRules},
		Rules:        time.Duration(o.iptablesResync) * time.Second,
		IPForward:    o.ipForward,
		Blackhole:    o.blackholeRoute,
		NextHopsFrom: o.nextHopsFrom,
		LeaseTTL:     o.leaseTTL,
		RenewMargin:  time.Duration(o.renewMargin) * time.Minute,
		ChangeLimit:  o.changeLimit,
		ExitOnLoss:   o.onLeaseLost.value == onLossExit,
		Rand:         rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),

		ProbeInterval:     o.probeInterval,
		ProbeUnreadyAfter: o.probeUnreadyAfter,

		TrustConfig: o.trustsConfig(),
	}
}

func (o *options) charonOptions() charon.Options {
	return charon.Options{
		Exec: o.charonExec, URI: o.charonURI, Config: o.subnetFile + ".charon.conf", Log: os.Stderr,
		Kernel: linux.TryESP,
	}
}

// closing logs the error of a Close at the end of the run.
func closing(what string, err error) {
	if err != nil {
		klog.Warningf("close %s: %v", what, err)
	}
}
