package kernel

import (
	"fmt"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// Network holds all machines of a world and the underlays between them.
type Network struct {
	world    *world.World
	hosts    []*Host    // in the order of creation
	segments []*Segment // in the order of creation
	values   *values
	probeID  uint16 // of the last probe
	probes   func(*Probe)
}

// NewNetwork returns a network without machines in a world.
func NewNetwork(w *world.World) *Network { return &Network{world: w, values: newValues()} }

// World returns the world of the network.
func (n *Network) World() *world.World { return n.world }

// NewHost adds a machine without links, under a unique name.
func (n *Network) NewHost(name string) *Host {
	if n.Host(name) != nil {
		panic(fmt.Sprintf("kernel: host %q exists", name))
	}
	h := &Host{
		network: n, world: n.world, name: name, opLabel: name + ":",
		stack: newStack(n, name), hints: newHinter(), changed: 1,
	}
	h.filter = newNetfilter(h)
	h.stack.filter = h.filter
	h.paths = newPaths(h.stack)
	h.lane = &hostDriver{h: h, paths: h.paths}
	n.hosts = append(n.hosts, h)
	return h
}

// Host returns the machine of that name, or nil.
func (n *Network) Host(name string) *Host {
	for _, h := range n.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// NewSegment adds an Ethernet.
func (n *Network) NewSegment(name string) *Segment {
	g := newSegment(n.world, name, nil)
	n.segments = append(n.segments, g)
	return g
}

// Segments returns the underlays in the order of their creation.
func (n *Network) Segments() []*Segment { return n.segments }

// OnProbe calls fn with every finished probe; nil ends that. The function must
// not change the world.
func (n *Network) OnProbe(fn func(*Probe)) { n.probes = fn }
