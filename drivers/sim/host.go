package sim

import (
	"fmt"
)

// Host is a machine: a kernel's tables and what is attached to it.
type Host struct {
	world *World
	name  string
	stack *stack

	changed  func()        // who is told of hints in virtual time
	hints    chan struct{} // the same for who asks the driver
	hintLoss float64
}

// NewHost adds a machine without links, with a name of its own.
func (w *World) NewHost(name string) *Host {
	if w.Host(name) != nil {
		panic(fmt.Sprintf("sim: host %q exists", name))
	}
	h := &Host{world: w, name: name, stack: newStack(w, name), hints: make(chan struct{}, 1)}
	w.hosts = append(w.hosts, h)
	return h
}

// Host returns the machine of that name, or nil.
func (w *World) Host(name string) *Host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// Hosts lists the machines in the order in which they were made.
func (w *World) Hosts() []*Host { return w.hosts }

// World is where the host is.
func (h *Host) World() *World { return h.world }

// Name is unique in the world.
func (h *Host) Name() string { return h.name }

// OnHint lets fn happen, as an event of its own, each time the kernel hints
// that something may have changed. It is the driver's Hints in virtual time.
// There is one listener; nil ends it.
func (h *Host) OnHint(fn func()) { h.changed = fn }

// LoseHints makes the kernel forget to hint with the given probability.
func (h *Host) LoseHints(probability float64) { h.hintLoss = probability }

// hint tells that something may have changed. Like a netlink message it
// carries nothing to rely on, and it may be lost.
func (h *Host) hint() {
	if h.hintLoss > 0 && h.world.Rand(h.name+"/hints").Float64() < h.hintLoss {
		h.world.Note(h.name+": hint lost", "")
		return
	}
	select {
	case h.hints <- struct{}{}:
	default:
	}
	if h.changed == nil {
		return
	}
	h.world.After(0, h.name+": hint", func() {
		if h.changed != nil {
			h.changed()
		}
	})
}
