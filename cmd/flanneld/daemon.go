package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	rules "github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/commands"
	"github.com/flanneld/flannel/drivers/linux/firewall"
)

// daemon opens the parts of a node in the order of interop 1.5 (start-up), and
// runs it. The health listener comes first: a supervisor asks from the start.
func daemon(ctx context.Context, o *options) (exit node.Exit) {
	health := &agent.Health{}
	if o.healthzPort > 0 {
		listen := agent.Listen{
			Addr:       net.JoinHostPort(o.healthzIP, strconv.Itoa(o.healthzPort)),
			OpenStatus: o.healthzStatus,
		}
		server, err := agent.Serve(ctx, listen, health)
		if err != nil {
			return failed(err)
		}
		// The listener closes at the first signal, before the slower parts end.
		defer context.AfterFunc(ctx, func() { closing("health listener", server.Close()) })()
	}
	ctx, store, err := openStore(ctx, o)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer store.close()
	host, err := linux.New(ctx, o.secrets())
	if err != nil {
		return interrupted(ctx, fmt.Errorf("open the kernel's network configuration: %w", err))
	}
	defer func() { closing("kernel", host.Close()) }()

	state, former := o.statePaths()
	options := agent.Options{
		Node: o.nodeOptions(), Store: store.Store,
		SubnetFile: o.subnetFile, StateFile: state, FormerStateFile: former,
		Health: health, OnReady: store.ready, OnPulse: new(systemd).report,
	}
	options.Lanes[node.HostLane] = host
	// The node runs on without a firewall. If it wants rules, it is not ready.
	if filter, err := firewall.New(ctx); err != nil {
		klog.Warningf("going on without a firewall: %v", err)
	} else {
		options.Lanes[node.FirewallLane] = filter
		defer func() { closing("firewall", filter.Close()) }()
	}
	runner, warning := commands.New(recordPath(state))
	if warning != nil {
		klog.Warning(warning)
	}
	options.Lanes[node.CommandsLane] = runner
	defer func() { closing("record of commands", runner.Close()) }()
	exit = agent.Run(ctx, options)
	if died := new(embeddedDied); errors.As(context.Cause(ctx), &died) {
		return failed(died)
	}
	return exit
}

// interrupted turns an error into an orderly end if a signal caused it.
func interrupted(ctx context.Context, err error) node.Exit {
	if ctx.Err() != nil {
		return node.Exit{Status: statusOK, Reason: fmt.Sprintf("shutting down: %v", context.Cause(ctx))}
	}
	return failed(err)
}

func (o *options) storeOptions(endpoints []string) etcd.Options {
	return etcd.Options{
		Endpoints: endpoints, Prefix: o.etcdPrefix,
		CertFile: o.etcdCertFile, KeyFile: o.etcdKeyFile, CAFile: o.etcdCAFile,
		Username: o.etcdUsername, Password: o.etcdPassword,
		Log: slog.New(logr.ToSlogHandler(klog.Background())),
	}
}

func (o *options) nodeOptions() node.Options {
	return node.Options{
		Uplink: uplink.Options{
			Ifaces: o.ifaces, Regexes: o.ifaceRegexes, CanReach: o.ifaceCanReach,
			PublicIP: o.publicIP, PublicIPv6: o.publicIPv6,
		},
		Firewall:    rules.Options{Masquerade: o.ipMasq, NoRandom: o.ipMasqNoRandom, Forward: o.forwardRules},
		Rules:       time.Duration(o.iptablesResync) * time.Second,
		IPForward:   o.ipForward,
		Blackhole:   o.blackholeRoute,
		LeaseTTL:    o.leaseTTL,
		RenewMargin: time.Duration(o.renewMargin) * time.Minute,
		ExitOnLoss:  o.onLeaseLost.value == onLossExit,
		Rand:        rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
}

// closing logs the error of a Close at the end of the run.
func closing(what string, err error) {
	if err != nil {
		klog.Warningf("close %s: %v", what, err)
	}
}
