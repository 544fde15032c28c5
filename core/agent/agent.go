package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
)

// Options say what to run, and with which drivers and files.
type Options struct {
	// Network is the name of the node's network, for the log; "" for the unnamed one.
	Network string
	// Node fixes the node's behaviour. Run fills Previous and Saved in from
	// the files below.
	Node  node.Options
	Store lease.Store
	// Lanes are the drivers of the parts of the host. Nil stands for a part that
	// this host does not have; it has the host's lane.
	Lanes [node.LaneCount]driver.Lane
	// Probes sends the node's probes. Nil: it cannot send any.
	Probes probe.Sender

	SubnetFile string // where the node's subnet is announced to CNI plugins
	StateFile  string // where the last good snapshot is kept; empty: nowhere
	// PodBridges returns the bridges that the host's CNI configuration names for pods; nil: none is known. It is called
	// with each look at the host.
	PodBridges func() []string
	// FormerStateFile is read instead if there is no StateFile yet: earlier
	// releases kept the state there.
	FormerStateFile string

	Health  *Health          // receives the reports of Run; nil: no health listener
	Socket  *Socket          // each look at the host keeps it at its path; nil: there is none
	OnReady func()           // called once, when the node is ready for the first time; may be nil
	OnPulse func(node.Pulse) // called in each turn of the loop, which waits for it; may be nil
	Log     func(node.Event) // nil: klog
	// Notify is called, after Log, with the events that the operator of the cluster has
	// to see. It must not block; nil: they are only in the log.
	Notify func(node.Event)
}

// machine lists the methods of a node that the loop, and the pages, call.
type machine interface {
	Step(now time.Time, in node.Input)
	Ready() node.Effects
	Pulse() node.Pulse
	Status() node.Status
	Peers() []node.Peer
	Differences() []node.Difference
	Tables() []node.Tables
}

// Run runs a node until ctx ends (exit status 0) or the node asks to exit. It
// waits for everything it started, except for driver and store calls that
// ignore their context for longer than a shutdown may take. It closes neither
// the store nor the driver.
func Run(ctx context.Context, opts Options) node.Exit {
	if opts.Log == nil {
		opts.Log = logEvent(opts.Network)
	}
	if opts.Health == nil {
		opts.Health = &Health{}
	}
	opts.Log = opts.Health.remembering(withNotices(opts.Log, opts.Notify))
	opts.Node.Previous = readPrevious(opts.SubnetFile, opts.Log)
	opts.Node.Saved = readSaved([]string{opts.StateFile, opts.FormerStateFile}, opts.Log)
	return run(ctx, opts, node.New(opts.Node))
}

func run(ctx context.Context, opts Options, m machine) node.Exit {
	a := newAgent(ctx, opts, m)
	exit := a.loop(ctx)
	a.end()
	return exit
}

// stopped returns the exit of a run whose context has ended.
func stopped(ctx context.Context) node.Exit {
	return node.Exit{Status: 0, Reason: fmt.Sprintf("shutting down: %v", context.Cause(ctx))}
}
