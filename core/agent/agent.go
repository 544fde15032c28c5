package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// Options say what to run and against which world.
type Options struct {
	// Node fixes the node's behaviour. Run fills Previous and Saved in from
	// the files below.
	Node  node.Options
	Store lease.Store
	// Lanes are the drivers of the parts of the host. A nil firewall lane means
	// that the host has no firewall that could be used.
	Lanes [node.LaneCount]driver.Lane

	SubnetFile string // where the node's subnet is announced to CNI plugins
	StateFile  string // where the last good snapshot is kept; empty: nowhere
	// FormerStateFile is read instead if there is no StateFile yet: a release
	// before kept it there.
	FormerStateFile string

	Health  *Health          // answers from what Run reports; nil: no health listener
	OnReady func()           // called once, when the node is ready for the first time; may be nil
	OnPulse func(node.Pulse) // called each turn of the loop, which waits for it; may be nil
	Log     func(node.Event) // nil: klog
}

// machine is what the loop needs of a node.
type machine interface {
	Step(now time.Time, in node.Input)
	Ready() node.Effects
	Pulse() node.Pulse
	Status() node.Status
}

// Run lives a node's life until ctx ends (exit status 0) or the node asks for
// the end. It returns when nothing it started is left running, except for
// calls into the world that ignored their context for longer than a shutdown
// may take. It closes neither the store nor the driver.
func Run(ctx context.Context, opts Options) node.Exit {
	if opts.Log == nil {
		opts.Log = logEvent
	}
	if opts.Lanes[node.FirewallLane] == nil {
		opts.Lanes[node.FirewallLane] = noFirewall{}
	}
	if opts.Health == nil {
		opts.Health = &Health{}
	}
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

// stopped is how a run ends that was asked to.
func stopped(ctx context.Context) node.Exit {
	return node.Exit{Status: 0, Reason: fmt.Sprintf("shutting down: %v", context.Cause(ctx))}
}
