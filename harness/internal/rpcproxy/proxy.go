package rpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/flanneld/flannel/internal/pause"
)

// Options name the two sides of the proxy.
type Options struct {
	Listener net.Listener                                // for the clients; the proxy closes it
	Dial     func(ctx context.Context) (net.Conn, error) // to the server
	// Stream reports, by its full name, whether a method is a stream, such as a
	// watch, that the proxy always passes on. Of any other method the client
	// sends one message and wants one answer.
	Stream func(method string) bool
}

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	o      Options
	server *grpc.Server
	back   *grpc.ClientConn

	mu     sync.Mutex
	fates  map[netip.Addr][]Fate // of the next requests, by client
	chance Chances
}

// Start starts a proxy.
func Start(o Options) (*Proxy, error) {
	back, err := grpc.NewClient("passthrough:///server",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.Dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		// With this the proxy finds a restarted server within seconds, not minutes.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	p := &Proxy{o: o, back: back, fates: map[netip.Addr][]Fate{}}
	p.server = grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(p.handle),
		grpc.MaxRecvMsgSize(maxMessage),
		// The server decides how often clients may send keepalive pings.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Millisecond, PermitWithoutStream: true}))
	go func() { _ = p.server.Serve(o.Listener) }() // it ends with Close, which makes the error meaningless
	return p, nil
}

// maxMessage is larger than any message.
const maxMessage = 64 << 20

// Close cuts all connections.
func (p *Proxy) Close() error {
	p.server.Stop()
	return p.back.Close()
}

// handle serves one call of a client.
func (p *Proxy) handle(_ any, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx := in.Context()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	if p.o.Stream(method) {
		return p.pass(ctx, method, in)
	}
	var question message
	if err := in.RecvMsg(&question); err != nil {
		return err
	}
	fate, before, after := p.draw(clientOf(ctx))
	if fate == Lost {
		return givenUp(ctx)
	}
	if fate == Late {
		_ = givenUp(ctx)
	}
	if !pause.For(ctx, before) && fate == Done {
		return givenUp(ctx)
	}
	asked := ctx
	if fate != Done { // the server performs it whether or not the client waits
		var cancel context.CancelFunc
		asked, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
	}
	answer, trailer, err := p.ask(asked, method, question)
	if fate != Done || !pause.For(ctx, after) {
		return givenUp(ctx)
	}
	in.SetTrailer(trailer)
	if err != nil {
		return err
	}
	return in.SendMsg(&answer)
}

// ask sends one request to the server.
func (p *Proxy) ask(ctx context.Context, method string, question message) (answer message, trailer metadata.MD,
	err error) {
	out, err := p.back.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(out.SendMsg(&question), out.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	err = out.RecvMsg(&answer)
	if err != nil {
		return nil, out.Trailer(), err
	}
	for err == nil { // only the end of the stream is left
		var more message
		err = out.RecvMsg(&more)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return answer, out.Trailer(), err
}

// pass connects a client's stream with the server.
func (p *Proxy) pass(ctx context.Context, method string, in grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := p.back.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		for {
			var m message
			if in.RecvMsg(&m) != nil || out.SendMsg(&m) != nil {
				_ = out.CloseSend()
				return
			}
		}
	}()
	for {
		var m message
		if err := out.RecvMsg(&m); err != nil {
			in.SetTrailer(out.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := in.SendMsg(&m); err != nil {
			return err
		}
	}
}

// givenUp waits until the client has given up.
func givenUp(ctx context.Context) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// clientOf returns the address of the calling client.
func clientOf(ctx context.Context) netip.Addr {
	who, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Addr{}
	}
	at, err := netip.ParseAddrPort(who.Addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// message is a message as it is on the wire.
type message []byte

// raw is a codec that passes messages on unread.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*message), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*message) = append(message(nil), data...)
	return nil
}
