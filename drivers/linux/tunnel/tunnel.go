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

// reportTime is how often a loop that never waits publishes its report.
const reportTime = 100 * time.Millisecond

// Tunnel is a running packet path.
type Tunnel struct {
	index int // of the device
	stop  int // an eventfd: the loop stops when it is written to
	done  chan struct{}
	table atomic.Pointer[udppath.Table]

	// changed is called by the loop when it ends or uses a simpler way than
	// before.
	changed func()

	mu      sync.Mutex
	running report
}

// report is the state of a loop.
type report struct {
	tier     Tier
	reason   string
	fallback fallback
	path     udppath.Counters
	refused  [drops]uint64
}

// Open starts to carry packets between the TUN device and the socket that p
// names, in the best tier that p allows and the kernel supports. The device must
// exist.
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

// Close ends the loop and releases the socket and the device, which stays.
func (t *Tunnel) Close() error {
	var one [8]byte
	one[0] = 1 // any number but zero, in either byte order
	_, err := unix.Write(t.stop, one[:])
	<-t.done
	return errors.Join(err, unix.Close(t.stop))
}

// Index returns the device's index. Another device of its name has another
// index.
func (t *Tunnel) Index() int { return t.index }

// Alive reports whether packets are carried. A tunnel ends when its device goes
// away; it must still be closed.
func (t *Tunnel) Alive() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

// Table returns the peers in use.
func (t *Tunnel) Table() *udppath.Table { return t.table.Load() }

// SetTable changes the peers in use, between one packet and the next.
func (t *Tunnel) SetTable(table *udppath.Table) { t.table.Store(table) }

// Running says how the tunnel carries packets and how many it has dropped, as of
// a moment ago.
func (t *Tunnel) Running() dataplane.Running {
	t.mu.Lock()
	r := t.running
	t.mu.Unlock()
	reason := r.reason
	if d := r.fallback; d.what != "" && time.Now().Before(d.until) {
		reason += "; " + d.what
	}
	out := dataplane.Running{
		Tier: string(r.tier), Reason: reason, Carried: r.path[udppath.Passed], Drops: r.path.Drops(),
	}
	for i, n := range r.refused {
		out.Drops[drop(i).String()] = n
	}
	return out
}

// run is the loop. Each turn serves the sides that are ready and waits for the
// next event. For a lone packet it makes no call in vain.
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

// turn carries the packets that are ready: arrivals first, so that the kernel's
// answers to them leave in the same turn. After a lone packet it does not look
// for an answer.
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

// report publishes the state of the loop.
func (t *Tunnel) report(c *carrier) {
	fallback := c.carry.fallback()
	t.mu.Lock()
	r := &t.running
	news := r.fallback.what != fallback.what
	r.fallback, r.refused = fallback, c.refused
	r.path = c.path.Counters()
	r.path.Add(c.uncut)
	t.mu.Unlock()
	if news {
		t.changed()
	}
}

func (t *Tunnel) end(c *carrier) {
	t.report(c)
	_ = c.close() // these descriptors buffer no writes, so an error loses nothing
	close(t.done)
	t.changed()
}
