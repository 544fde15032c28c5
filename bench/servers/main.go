package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/drivers/remote/server"
)

const prefix = "/bench/network"

var (
	nodes    = flag.Int("nodes", 5000, "watching nodes, each with a lease")
	rate     = flag.Int("rate", 10, "changes a second")
	duration = flag.Duration("for", 30*time.Second, "time to change leases")
	serving  = flag.String("serve", "", "run the server for the etcd at this URL, on file descriptor 3")
)

func main() {
	flag.Parse()
	run := measure
	if *serving != "" {
		run = serve
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// serve is the server's process.
func serve(ctx context.Context) error {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	s, err := server.New(ctx, server.Options{
		Open: func(string) (server.Store, error) {
			return etcd.Open(ctx, etcd.Options{Endpoints: []string{*serving}, Prefix: prefix})
		},
		Limits: server.Limits{Rate: 1e6, Burst: 1e6, ConnsPer: 1e6}, // all nodes have one address
	})
	if err != nil {
		return err
	}
	return s.Serve(l, nil)
}

// value is the record of a vxlan node at a step.
func value(i, step int) string {
	return fmt.Sprintf(`{"PublicIP":"10.%d.%d.%d","PublicIPv6":null,"BackendType":"vxlan",`+
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:%02x:%02x:%02x:%02x"}}`,
		1+i>>16, i>>8&255, i&255, step>>8&255, step&255, i>>8&255, i&255)
}

func key(i int) string { return fmt.Sprintf("%s/subnets/10.%d.%d.0-24", prefix, 100+i>>8, i&255) }

// child is the server's process.
type child struct {
	cmd  *exec.Cmd
	addr string
}

func start(endpoint string) (*child, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.Command("/proc/self/exe", "-serve="+endpoint)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{socket}, os.Stderr
	return &child{cmd, l.Addr().String()}, cmd.Start()
}

// usage returns the CPU time so far, and the present and the largest memory in MB.
func (c *child) usage() (cpu time.Duration, now, peak string) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			peak = strings.TrimSpace(text)
		}
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			now = strings.TrimSpace(text)
		}
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	var user, system int
	_, _ = fmt.Sscan(fields[11]+" "+fields[12], &user, &system) // in ticks of 10 ms
	return time.Duration(user+system) * 10 * time.Millisecond, now, peak
}

// crowd are the watching nodes.
type crowd struct {
	joined, seen sync.WaitGroup
	mu           sync.Mutex
	delays       []time.Duration // from write to line, of all changes at a few nodes
	written      map[string]time.Time
	busy         int    // answers of a server that could not serve yet
	last         string // the mark of the last change
}

func measure(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "bench-servers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := embedded.Start(ctx, embedded.Options{Dir: dir, UnsafeNoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i := range *nodes {
		if _, err := db.Client().Put(ctx, key(i), value(i, 0)); err != nil {
			return err
		}
	}
	c, err := start(db.Endpoints()[0])
	if err != nil {
		return err
	}
	defer func() {
		_ = c.cmd.Process.Signal(syscall.SIGKILL)
		_ = c.cmd.Wait() // it was killed
	}()
	nodesOf := &crowd{written: map[string]time.Time{}, last: mark(*nodes-1, *rate*int(duration.Seconds()))}
	return nodesOf.play(ctx, db, c)
}

// mark is the part of a value that names its node and step.
func mark(i, step int) string {
	return fmt.Sprintf("c6:d2:%02x:%02x:%02x:%02x", step>>8&255, step&255, i>>8&255, i&255)
}

func (w *crowd) play(ctx context.Context, db *embedded.Server, c *child) error {
	failed := make(chan error, *nodes)
	began := time.Now()
	w.joined.Add(*nodes)
	w.seen.Add(*nodes)
	for i := range *nodes {
		go func() {
			if err := w.watch(c.addr, i); err != nil {
				failed <- err
			}
		}()
	}
	if err := wait(&w.joined, failed); err != nil {
		return err
	}
	cpu, now, peak := c.usage()
	fmt.Printf("%d nodes joined in %.1f s, with %d refusals: %.1f s CPU, %s now, %s at most\n", *nodes,
		time.Since(began).Seconds(), w.busy, cpu.Seconds(), now, peak)
	began = time.Now()
	pace := time.NewTicker(time.Second / time.Duration(*rate))
	defer pace.Stop()
	steps := *rate * int(duration.Seconds())
	for step := 1; step <= steps; step++ {
		<-pace.C
		i := *nodes - 1
		if step < steps {
			i = step * 7919 % *nodes
		}
		w.mu.Lock()
		w.written[mark(i, step)] = time.Now()
		w.mu.Unlock()
		if _, err := db.Client().Put(ctx, key(i), value(i, step)); err != nil {
			return err
		}
	}
	if err := wait(&w.seen, failed); err != nil {
		return err
	}
	took := time.Since(began)
	after, now, peak := c.usage()
	slices.Sort(w.delays)
	fmt.Printf("%d changes in %.1f s: %.0f %% of a core, %s now, %s at most; %d of them seen at %d nodes, "+
		"half after %s, 99 %% after %s\n", steps, took.Seconds(), 100*(after-cpu).Seconds()/took.Seconds(), now, peak,
		len(w.delays), watched(*nodes), w.delays[len(w.delays)/2].Round(time.Millisecond),
		w.delays[len(w.delays)*99/100].Round(time.Millisecond))
	return nil
}

// watched is the number of nodes that measure delays.
func watched(nodes int) int { return min(nodes, 10) }

func wait(group *sync.WaitGroup, failed chan error) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case err := <-failed:
		return err
	}
}

// watch reads one node's stream until the last change.
func (w *crowd) watch(addr string, i int) error {
	resp, err := w.join(addr)
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for first := true; ; first = false {
		line, err := skip(lines, !first)
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		if first {
			w.joined.Done()
		}
		if i < watched(*nodes) && !first {
			w.note(line)
		}
		if bytes.Contains(line, []byte(w.last)) {
			w.seen.Done()
			return nil
		}
	}
}

// join opens a stream. While the server answers that it is busy, it asks again.
func (w *crowd) join(addr string) (*http.Response, error) {
	for {
		req, err := http.NewRequest(http.MethodGet, "http://"+addr+remote.DefaultPrefix+"/leases", nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set(api.Header, api.Terms{}.String())
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil || resp.StatusCode == http.StatusOK {
			return resp, err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			return nil, errors.New(resp.Status)
		}
		w.mu.Lock()
		w.busy++
		w.mu.Unlock()
		time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
	}
}

// skip reads a line, and returns it only if keep is set: 5,000 first lines are a few GB.
func skip(r *bufio.Reader, keep bool) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if keep {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (w *crowd) note(line []byte) {
	f, err := api.ParseFrame(line)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range f.Leases {
		at := bytes.Index(l.Attrs, []byte("c6:d2:"))
		if written, ok := w.written[string(l.Attrs[at:at+17])]; ok {
			w.delays = append(w.delays, time.Since(written))
		}
	}
}
