package etcd

import (
	"context"
	"net"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// proxy carries TCP connections to a server and lets a test break them.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	awake sync.Cond
	held  bool // a black hole: nothing passes, nothing is refused
	shut  bool // every connection is closed at once
	conns map[net.Conn]struct{}
}

// newProxy carries connections to the first endpoint of a server until the test
// ends.
func newProxy(endpoint string) *proxy {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{
		listener: listener,
		target:   strings.TrimPrefix(endpoint, "http://"),
		conns:    make(map[net.Conn]struct{}),
	}
	p.awake.L = &p.mu
	go p.serve()
	DeferCleanup(func() {
		listener.Close()
		p.set(false, true)
	})
	return p
}

func (p *proxy) endpoint() string { return "http://" + p.listener.Addr().String() }

// blackhole blocks all bytes; cut closes all connections; heal lets all pass.
func (p *proxy) blackhole() { p.set(true, false) }
func (p *proxy) cut()       { p.set(false, true) }
func (p *proxy) heal()      { p.set(false, false) }

func (p *proxy) set(held, shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held, p.shut = held, shut
	if shut {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
	p.awake.Broadcast()
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.carry(client)
	}
}

func (p *proxy) carry(client net.Conn) {
	defer client.Close()
	if !p.pass(client) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.pass(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	both.Go(func() { p.copy(client, server) })
	both.Wait()
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(from) {
			_, err = to.Write(buf[:n])
		}
		if err != nil || !p.pass(from) {
			return
		}
	}
}

// pass waits while the proxy is a black hole. It reports false once the
// connection has been closed.
func (p *proxy) pass(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held {
		p.conns[c] = struct{}{}
		p.awake.Wait()
	}
	if p.shut {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// meter counts calls by method, and remembers the contexts of streams.
type meter struct {
	mu      sync.Mutex
	calls   map[string]int
	listed  int // requests for all leases
	streams []context.Context
}

// metered makes the options count.
func (o Options) metered() (Options, *meter) {
	m := &meter{calls: make(map[string]int)}
	o.dial = append(o.dial,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
			conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			m.note(method)
			m.noteList(req)
			return invoke(ctx, method, req, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
			conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			m.note(method)
			m.mu.Lock()
			m.streams = append(m.streams, ctx)
			m.mu.Unlock()
			return stream(ctx, desc, conn, method, opts...)
		}))
	return o, m
}

func (m *meter) note(method string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[method[strings.LastIndex(method, "/")+1:]]++
}

// noteList counts a request for all leases, with their values.
func (m *meter) noteList(req any) {
	txn, ok := req.(*pb.TxnRequest)
	if !ok {
		return
	}
	for _, op := range txn.Success {
		if r := op.GetRequestRange(); r != nil && len(r.RangeEnd) > 0 && !r.CountOnly {
			m.mu.Lock()
			m.listed++
			m.mu.Unlock()
		}
	}
}

// lists returns the number of requests for all leases.
func (m *meter) lists() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}

// counts returns the number of calls of each method.
func (m *meter) counts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := make(map[string]int, len(m.calls))
	for k, v := range m.calls {
		counts[k] = v
	}
	return counts
}

// openStreams counts the streams whose contexts have not ended.
func (m *meter) openStreams() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int
	for _, ctx := range m.streams {
		if ctx.Err() == nil {
			n++
		}
	}
	return n
}

// onUnary runs a hook around each call of a method, after the store's own interceptors.
func (o Options) onUnary(method string, hook func(call func() error) error) Options {
	o.dial = append(o.dial, grpc.WithChainUnaryInterceptor(func(ctx context.Context, m string, req, reply any,
		conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		call := func() error { return invoke(ctx, m, req, reply, conn, opts...) }
		if strings.HasSuffix(m, "/"+method) {
			return hook(call)
		}
		return call()
	}))
	return o
}

// onWatch runs a hook before each watch stream is opened, and lets it look at
// and change each message received.
func (o Options) onWatch(before func(), received func(any)) Options {
	o.dial = append(o.dial, grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
		conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if !strings.HasSuffix(method, "/Watch") {
			return stream(ctx, desc, conn, method, opts...)
		}
		before()
		s, err := stream(ctx, desc, conn, method, opts...)
		return &spiedStream{s, received}, err
	}))
	return o
}

type spiedStream struct {
	grpc.ClientStream
	received func(any)
}

func (s *spiedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.received(m)
	}
	return err
}
