package labworld

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/pace"
	"github.com/flanneld/flannel/scenarios/lang"
)

// World is a topology in network namespaces, with real daemons.
type World struct {
	Lab *harness.Lab

	top     lang.Topology
	nodes   map[string]*netnsNode
	storage *netnsStore

	// Streams read the list of pods from goroutines of their own.
	pods sync.RWMutex

	mu    sync.Mutex
	notes []string // the last lost packets and failed attempts, with all known details
}

var _ lang.World = (*World)(nil)

const (
	// stepBound is the time limit of one command: only a hanging one reaches it.
	stepBound = 30 * time.Second
	// statusBound is the time limit for a daemon's status. A paused daemon never
	// answers, and a wait for a condition asks again.
	statusBound = 2 * time.Second
	// echoBound is the time after which a packet without a reply counts as lost. It
	// is longer than the wait for neighbour discovery, which asks once a second. It is
	// the same on a slow machine: nearly all of it is the kernel's timer.
	echoBound = lang.EchoBound
	// lookEvery is the shortest time between two checks of a condition.
	lookEvery = 20 * time.Millisecond
)

// bounded returns the context of one command. A slow machine gets more time.
func bounded(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), pace.Scale(d))
}

// New builds a topology in network namespaces. The program must have
// begun with [harness.Main] or [harness.Reexec].
func New(top lang.Topology, daemon string) (*World, error) {
	if top.Kube {
		return nil, errors.New("topology store=kube: world netns has no NodeObjects")
	}
	if top.Servers > 0 {
		return nil, errors.New("topology servers: world netns has no Servers")
	}
	if top.NoIPv6 != nil {
		return nil, errors.New("topology noipv6: network namespaces share the kernel's IPv6")
	}
	if top.NoWireGuard != nil {
		return nil, errors.New("topology nowireguard: network namespaces share the kernel's modules")
	}
	if top.NAT != nil {
		return nil, errors.New("topology nat: the lab has no router that translates addresses")
	}
	ctx, cancel := bounded(4 * stepBound)
	defer cancel()
	o := harness.Options{Nodes: top.Nodes, Segments: top.Segments, IPv6: top.HasIPv6(), MTU: top.MTU,
		Config: leaveRoom(top.Config), Daemon: daemon, LeaseTTL: top.TTL, StoreUsers: top.Users, StoreProxy: top.Proxy}
	o.DaemonArgs = daemonArgs(top)
	o.Outside = top.Firewalled()
	if top.ExitOnLoss {
		o.DaemonArgs = append(o.DaemonArgs, "--on-lease-lost=exit")
	}
	lab, err := harness.New(ctx, o)
	if err != nil {
		return nil, err
	}
	w := &World{Lab: lab, top: top, nodes: map[string]*netnsNode{}, storage: &netnsStore{Store: lab.Store}}
	for _, n := range lab.Nodes {
		n.OwnSys = strings.Contains(top.Config, "/sys/class/net/") // a command of the operator reads it
		w.nodes[n.Name] = &netnsNode{Host: n.Host, node: n, world: w}
	}
	return w, nil
}

// Name implements [World].
func (w *World) Name() string { return "netns" }

// Close implements [World].
func (w *World) Close() error { return w.Lab.Close() }

// Until implements [World]: it polls the condition. After each look it rests for at least as
// long as the look took: on a slow machine, looks without a rest would take the processor from
// the daemons that have to bring the condition about.
func (w *World) Until(within time.Duration, cond func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		began := time.Now()
		err := cond()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(max(lookEvery, time.Since(began))):
		case <-ctx.Done():
			return cond() // the rest may have been long
		}
	}
}

// Stretch implements [lang.Slow].
func (w *World) Stretch(d time.Duration) time.Duration { return pace.Scale(d) }

// Node implements [World].
func (w *World) Node(name string) (lang.Node, error) {
	n, ok := w.nodes[name]
	if !ok {
		return nil, fmt.Errorf("no node %q", name)
	}
	return n, nil
}

// Store implements [World].
func (w *World) Store() lang.Store { return w.storage }

// Logs implements [World].
func (w *World) Logs() string {
	var all strings.Builder
	w.mu.Lock()
	fmt.Fprintf(&all, "lost packets and failed attempts:\n%s\n", strings.Join(w.notes, "\n"))
	w.mu.Unlock()
	for _, n := range w.Lab.Nodes {
		fmt.Fprintf(&all, "%s:\n%s\n", n.Name, n.LogTail(lang.LogTail))
	}
	return all.String()
}

// pod finds "n1.pod".
func (w *World) pod(name string) (*harness.Pod, error) {
	n, ok := w.nodes[strings.TrimSuffix(name, ".pod")]
	if !ok || !strings.HasSuffix(name, ".pod") {
		return nil, fmt.Errorf("no pod %q: want n1.pod", name)
	}
	if len(n.node.Pods) == 0 {
		return nil, fmt.Errorf("%s does not exist: its node has not settled yet", name)
	}
	return n.node.Pods[0], nil
}

// Ping implements [World].
func (w *World) Ping(from, to string, o lang.PingOptions) (lang.PingResult, error) {
	w.pods.RLock()
	defer w.pods.RUnlock()
	a, b, err := w.places(from, to, o.Family)
	if err != nil {
		return lang.PingResult{}, err
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	result, err := a.host.Ping(ctx, b.addr,
		harness.PingOptions{Source: o.Source, Size: o.Size, DF: o.DF, TTL: o.TTL, Timeout: echoBound, Follow: o.Follow})
	r := lang.PingResult{OK: err == nil, Source: result.Source, WantSource: a.addr,
		Expired: errors.Is(err, harness.ErrExpired), TooBig: errors.Is(err, harness.ErrTooBig)}
	for _, lost := range []error{harness.ErrNoReply, harness.ErrTooBig, harness.ErrUnreachable, harness.ErrExpired} {
		if errors.Is(err, lost) {
			w.note(fmt.Sprintf("%s to %s: %v", from, to, err))
			r.Drop, err = lost.Error(), nil
		}
	}
	if o.Follow {
		r.Way = wayOf(b.host.Name, result.Way, result.Loss)
	}
	if loss := result.Loss; loss != nil {
		r.Where = loss.Host
		r.Drop = loss.Reason
		r.Detail = loss.Detail
	}
	return r, err
}

// keptNotes is the number of notes that Logs shows.
const keptNotes = 10

// note remembers a lost packet or a failed attempt for Logs.
func (w *World) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, time.Now().Format("15:04:05.000 ")+text)
	w.notes = w.notes[max(0, len(w.notes)-keptNotes):]
}

// Transfer implements [Streamer].
func (w *World) Transfer(from, to string, f cidr.Family, bytes int64) error {
	a, b, err := lang.Pair(w.pod, from, to, f)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	r, err := a.Transfer(ctx, b, f, bytes)
	if err == nil && r.Source != a.Addr(f) {
		err = fmt.Errorf("%s was seen as %s", a.Addr(f), r.Source)
	}
	return err
}

// Stream implements [Streamer].
func (w *World) Stream(from, to string, o lang.StreamOptions) (func() (int, int, error), error) {
	if _, _, err := w.places(from, to, o.Family); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan streamed, 1)
	stream := w.stream
	if o.Steady {
		stream = w.steadyStream
	}
	go func() { done <- stream(ctx, from, to, o) }()
	return func() (sent, lost int, err error) {
		stop()
		r := <-done
		return r.sent, r.lost, r.err
	}, nil
}

// streamed is the outcome of a stream.
type streamed struct {
	sent, lost int
	err        error
}

// steadyStream pings until it is stopped, at each tick. Each lost packet counts.
func (w *World) steadyStream(ctx context.Context, from, to string, o lang.StreamOptions) (s streamed) {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	ended := make(chan streamed)
	running := 0
	note := func(one streamed) {
		running--
		s.sent++
		s.lost += one.lost
		s.err = errors.Join(s.err, one.err)
	}
	for {
		select {
		case <-tick.C:
			running++
			go func() { ended <- w.streamOne(from, to, o) }()
		case one := <-ended:
			note(one)
		case <-ctx.Done():
			for running > 0 {
				note(<-ended)
			}
			return s
		}
	}
}

// streamOne sends one ping of a stream.
func (w *World) streamOne(from, to string, o lang.StreamOptions) streamed {
	r, err := w.Ping(from, to, lang.PingOptions{Family: o.Family})
	if err == nil && !r.OK {
		return streamed{lost: 1}
	}
	return streamed{err: err}
}

// stream pings until it is stopped. While a reply is outstanding it sends
// nothing: one lost packet proves as much as many.
func (w *World) stream(ctx context.Context, from, to string, o lang.StreamOptions) (s streamed) {
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for ; ; s.sent++ {
		r, err := w.Ping(from, to, lang.PingOptions{Family: o.Family})
		if err != nil {
			s.err = err
			return s
		}
		if !r.OK {
			s.lost++
		}
		select {
		case <-ctx.Done():
			s.sent++
			return s
		case <-tick.C:
		}
	}
}
