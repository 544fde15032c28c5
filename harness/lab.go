package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Options describe the lab to build.
type Options struct {
	Nodes      int           // the number of nodes; n1, n2, …
	Segments   int           // underlay segments; the nodes are spread over them in order; 0 is 1
	IPv6       bool          // the underlay has IPv6 beside IPv4
	MTU        int           // of the underlay; 0 is 1500
	Config     string        // network config put into the store; "" puts none
	Daemon     string        // path of flanneld; see BuildDaemon
	DaemonArgs []string      // for every node, after the lab's own arguments
	LeaseTTL   time.Duration // of a subnet lease; 0 is the daemon's default
	Outside    bool          // adds a host on the first segment that is not part of the overlay
	StoreUsers bool          // gives each node a user of its own in the store
	StoreProxy bool          // puts a proxy between the nodes and the store; see Store.Meet
}

// Lab is a set of machines and the network between them. Only one goroutine at
// a time may change it; probes may run side by side, but not while pods are
// added or follow another subnet file.
type Lab struct {
	Options Options
	Nodes   []*Node
	Store   *Store
	Router  *Host
	Outside *Outside // nil unless the options want it

	segments []*segment
	hosts    []*Host // all hosts and pods, in the order of their making
	pods     []*Pod
	dir      string // the lab's files
	pings    atomic.Uint32
}

// New builds a lab. Its store runs; its nodes run no daemon yet.
func New(ctx context.Context, o Options) (*Lab, error) {
	if os.Getenv(stageEnv) == "" {
		return nil, errors.New("build a lab: the program did not begin with harness.Main or harness.Reexec")
	}
	o.Segments, o.MTU = cmp.Or(o.Segments, 1), cmp.Or(o.MTU, 1500)
	if o.Nodes < 0 || o.Nodes > maxNodes || o.Segments < 0 || o.Segments > maxSegments {
		return nil, fmt.Errorf("build a lab: %d nodes on %d segments: want at most %d on %d", o.Nodes, o.Segments,
			maxNodes, maxSegments)
	}
	l := &Lab{Options: o}
	if err := l.build(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("build a lab: %w", err), l.Close())
	}
	return l, nil
}

func (l *Lab) build(ctx context.Context) (err error) {
	l.dir, err = os.MkdirTemp(scratch, "lab-")
	if err != nil {
		return err
	}
	l.Router, err = l.newHost("router", routerSettings...)
	if err != nil {
		return err
	}
	for i := range l.Options.Segments {
		if err := l.addSegment(ctx, i); err != nil {
			return err
		}
	}
	if err := l.addStore(ctx); err != nil {
		return err
	}
	if err := l.addOutside(ctx); err != nil {
		return err
	}
	for i := range l.Options.Nodes {
		if err := l.addNode(ctx, i+1, l.segments[i*l.Options.Segments/l.Options.Nodes]); err != nil {
			return err
		}
	}
	if err := l.startStore(ctx); err != nil {
		return err
	}
	if l.Options.Config == "" {
		return nil
	}
	return l.Store.SetConfig(ctx, l.Options.Config)
}

// startStore starts the store and gives the nodes their access to it.
func (l *Lab) startStore(ctx context.Context) error {
	if err := l.Store.Start(ctx); err != nil {
		return err
	}
	if l.Options.StoreProxy {
		if err := l.Store.startProxy(); err != nil {
			return err
		}
	}
	if l.Options.StoreUsers {
		return l.Store.addUsers(ctx)
	}
	return nil
}

// Node returns the node of that name, nil if there is none.
func (l *Lab) Node(name string) *Node {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Pods returns all pods in the order they were added.
func (l *Lab) Pods() []*Pod { return l.pods }

// Close ends everything at once, as a power cut would.
func (l *Lab) Close() error {
	var errs []error
	for _, n := range l.Nodes {
		errs = append(errs, n.KillAtChange(0), n.killSecond(), n.Kill(), n.takeDisks())
	}
	if l.Store != nil {
		errs = append(errs, l.Store.Kill(), l.Store.closeProxy())
	}
	for _, p := range l.pods {
		errs = append(errs, p.witness.close())
	}
	if l.Outside != nil {
		errs = append(errs, l.Outside.witness.close())
	}
	for _, h := range l.hosts {
		errs = append(errs, h.close())
	}
	l.hosts = nil
	l.pods = nil
	l.Nodes = nil
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// path returns the path of a file of the lab.
func (l *Lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}
