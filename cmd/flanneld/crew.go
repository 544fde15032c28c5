package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/internal/files"
	"github.com/flanneld/flannel/internal/wake"
)

// crew is the nodes of the networks of a process. With --watch-networks they come and go.
type crew struct {
	o      *options
	ctx    context.Context // ends with the process
	cancel context.CancelFunc
	shared besides

	running sync.WaitGroup
	members map[string]*member
	ended   chan ending
	pulsed  wake.Signal // a node may have begun to wait for a config
}

// member is the node of a network.
type member struct {
	health  *agent.Health
	cancel  context.CancelFunc
	stopped bool // the crew has ended it

	mu   sync.Mutex
	idle bool // the datastore holds no config that the node can use, and none is in force
}

// follow notes a pulse, and reports whether the node begins to wait for a config.
func (m *member) follow(p node.Pulse) (begins bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	begins = p.Unusable && !m.idle
	m.idle = p.Unusable
	return begins
}

// isIdle reports whether the node waits for a config.
func (m *member) isIdle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.idle
}

// ending is the end of a member.
type ending struct {
	name string
	exit node.Exit
}

func newCrew(ctx context.Context, o *options, shared besides) *crew {
	ctx, cancel := context.WithCancel(ctx)
	return &crew{o: o, ctx: ctx, cancel: cancel, shared: shared, members: map[string]*member{},
		ended: make(chan ending), pulsed: wake.NewSignal()}
}

// start starts the nodes of networks. All of them are members of the host before the first one begins,
// because none begins before the configs of all are known.
func (c *crew) start(names ...string) {
	for _, name := range names {
		c.shared.host.Join(name, c.o.ofNetwork(name).savedState())
		c.members[name] = &member{health: &agent.Health{Version: buildversion.Version(), Network: name}}
		c.shared.nodes.Add(c.members[name].health)
		c.shared.systemd.join(name)
	}
	for _, name := range names {
		m := c.members[name]
		var ctx context.Context
		ctx, m.cancel = context.WithCancel(c.ctx)
		var lane driver.Lane
		if c.shared.filter != nil {
			lane = c.shared.filter.Join(name)
		}
		report := c.shared.systemd.of(name)
		c.running.Go(func() {
			exit := c.o.ofNetwork(name).runNetwork(ctx, c.shared, m.health, lane, func(p node.Pulse) {
				report(p)
				c.shared.host.Hold(name, p.Holds)
				if m.follow(p) {
					c.pulsed.Send()
				}
			})
			c.ended <- ending{name, exit}
		})
	}
}

// drop ends the membership of a node that has ended.
func (c *crew) drop(name string) {
	m := c.members[name]
	m.cancel()
	delete(c.members, name)
	c.shared.nodes.Remove(m.health)
	c.shared.systemd.leave(name)
	c.shared.host.Leave(name)
	if c.shared.filter != nil {
		c.shared.filter.Leave(name)
	}
}

// run keeps the nodes running until the process ends, or until one of them has to end the process.
// Those of the watched networks, if there are any, it starts and ends.
func (c *crew) run(watched watchedNetworks) node.Exit {
	if watched == nil {
		c.start(c.o.crew().Begin(nil)...)
		c.complete()
		select {
		case e := <-c.ended:
			return c.end(e.exit)
		case <-c.ctx.Done():
			return c.end(node.Exit{})
		}
	}
	c.shared.nodes.Wait("the networks in the datastore are not yet known")
	c.start(c.o.crew().Begin(c.o.former())...)
	for {
		select {
		case <-c.ctx.Done():
			return c.end(node.Exit{})
		case <-watched.Changed():
		case <-c.pulsed:
		case e := <-c.ended:
			if !e.exit.Removed && !c.members[e.name].stopped {
				return c.end(e.exit)
			}
			c.drop(e.name)
			klog.Infof("network %s: it has left this host", e.name)
		}
		c.follow(watched)
	}
}

// complete says that the process knows its networks.
func (c *crew) complete() {
	c.shared.nodes.Wait("")
	c.shared.systemd.known()
}

// follow starts the nodes of the networks that the datastore holds, and ends those that have nothing to
// do.
func (c *crew) follow(watched watchedNetworks) {
	names, _, synced := watched.Names()
	if !synced {
		return
	}
	idle := map[string]bool{}
	for name, m := range c.members {
		idle[name] = m.isIdle()
	}
	begin, end := c.o.crew().Follow(names, idle)
	for _, name := range end {
		c.members[name].stopped = true
		c.members[name].cancel()
	}
	c.start(begin...)
	c.complete()
}

// end ends all nodes, and returns the exit of the process: the given one, or that of a node.
func (c *crew) end(exit node.Exit) node.Exit {
	c.cancel()
	go func() {
		c.running.Wait()
		close(c.ended)
	}()
	for e := range c.ended {
		if exit.Reason == "" {
			exit = e.exit
		}
	}
	if exit.Reason == "" {
		return interrupted(c.ctx, c.ctx.Err())
	}
	return exit
}

// crew returns what decides about the networks of the process.
func (o *options) crew() networks.Crew {
	return networks.Crew{Only: o.networks, Watch: o.watchNetworks, ExitOnLoss: o.onLeaseLost.value == onLossExit}
}

// savedState returns the content of the state file, or nil.
func (o *options) savedState() []byte {
	path, _ := o.statePaths()
	data, err := files.ReadRegular(path, files.MostOwn)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		klog.Warningf("state file of the last run: %v", err)
	}
	return data
}

// former returns the networks that a former run left on the host: their config may have gone since.
func (o *options) former() (names []string) {
	every := o.ofNetwork("*")
	state, _ := every.statePaths()
	for _, pattern := range []string{every.subnetFile, state} {
		before, after, _ := strings.Cut(pattern, "*")
		files, err := filepath.Glob(pattern)
		if err != nil {
			klog.Warningf("networks of the last run, by %s: %v", pattern, err)
		}
		for _, file := range files {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(file, before), after))
		}
	}
	return names
}
