package tunnel

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/udppath"
)

// reportTime is how often a loop that has no rest says how it is.
const reportTime = 100 * time.Millisecond

// Tunnel is a running packet path.
type Tunnel struct {
	index int // of the device
	stop  int // an eventfd: the loop ends when it is written to
	done  chan struct{}
	table atomic.Pointer[udppath.Table]

	// changed is called by the loop when it ends or does something less than
	// before.
	changed func()

	mu      sync.Mutex
	running report
}

// report is how a loop is.
type report struct {
	tier     Tier
	reason   string
	demotion demotion
	path     udppath.Counters
	refused  [drops]uint64
}

// Open starts to carry packets between the TUN device and the socket that p
// names, by the best tier that p allows and that works. The device must exist.
func Open(p dataplane.Proxy, table *udppath.Table, changed func()) (*Tunnel, error) {
	c, err := choose(p)
	if err != nil {
		return nil, err
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make eventfd: %w", err), c.close())
	}
	t := &Tunnel{index: c.index, stop: stop, done: make(chan struct{}), changed: changed}
	t.running = report{tier: c.tier, reason: c.reason}
	t.table.Store(table)
	go t.run(c)
	return t, nil
}

// Close ends the loop and lets go of the device, which stays, and the socket.
func (t *Tunnel) Close() error {
	var one [8]byte
	one[0] = 1 // anything but zero, in either order of bytes
	_, err := unix.Write(t.stop, one[:])
	<-t.done
	return errors.Join(err, unix.Close(t.stop))
}

// Index is the device's. Another device of its name is not this tunnel's.
func (t *Tunnel) Index() int { return t.index }

// Alive reports whether packets are carried. A device that is gone ends the
// tunnel, which must still be closed.
func (t *Tunnel) Alive() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

// Table returns what the tunnel goes by, and SetTable changes it, from one
// packet to the next.
func (t *Tunnel) Table() *udppath.Table { return t.table.Load() }

// SetTable implements what Table says.
func (t *Tunnel) SetTable(table *udppath.Table) { t.table.Store(table) }

// Running says how the tunnel carries packets and which it did not, as of a
// moment ago.
func (t *Tunnel) Running() dataplane.Running {
	t.mu.Lock()
	r := t.running
	t.mu.Unlock()
	reason := r.reason
	if d := r.demotion; d.what != "" && time.Now().Before(d.until) {
		reason += "; " + d.what
	}
	out := dataplane.Running{Tier: string(r.tier), Reason: reason, Drops: map[string]uint64{}}
	for i, n := range r.path {
		if why := udppath.Reason(i); n > 0 && why != udppath.Passed {
			out.Drops[why.String()] = n
		}
	}
	for i, n := range r.refused {
		if n > 0 {
			out.Drops[drop(i).String()] = n
		}
	}
	return out
}

// run is the loop. Each turn serves the sides that are ready and waits for the
// next, which costs a lone packet no call that finds nothing.
func (t *Tunnel) run(c *carrier) {
	defer t.end(c)
	w := newWaiter(c.device, c.socket, t.stop)
	reported := time.Now()
	for {
		ready := w.short()
		now := time.Now()
		if !ready || now.Sub(reported) > reportTime {
			t.report(c)
			reported = now
		}
		if !ready && w.long() != nil {
			return
		}
		if w.gone() || w.stopped() {
			return
		}
		c.begin(now)
		if t.turn(c, w) == ended {
			return
		}
	}
}

// turn carries what is ready: what has arrived first, so that what the kernel
// answers to it leaves in the same turn. A lone packet is not worth looking for
// an answer.
func (t *Tunnel) turn(c *carrier, w *waiter) outcome {
	table := t.table.Load()
	in := dry
	if w.arrived() {
		in = c.carry.receive(table)
	}
	if in == ended || in == dry && !w.leaving() {
		return in
	}
	out := c.carry.send(table)
	w.want(out == blocked)
	return out
}

// report tells others how the loop is.
func (t *Tunnel) report(c *carrier) {
	demotion := c.carry.demotion()
	t.mu.Lock()
	r := &t.running
	news := r.demotion.what != demotion.what
	r.demotion, r.refused = demotion, c.refused
	r.path = c.path.Counters()
	r.path.Add(c.uncut)
	t.mu.Unlock()
	if news {
		t.changed()
	}
}

func (t *Tunnel) end(c *carrier) {
	t.report(c)
	_ = c.close() // nothing is lost by descriptors that hold nothing back
	close(t.done)
	t.changed()
}
