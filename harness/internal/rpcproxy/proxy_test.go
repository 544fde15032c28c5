package rpcproxy_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/flanneld/flannel/harness/internal/rpcproxy"
)

// server counts its requests.
type server struct {
	grpc_health_v1.UnimplementedHealthServer
	asked chan struct{}
}

func (s server) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse,
	error) {
	s.asked <- struct{}{}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (s server) Watch(_ *grpc_health_v1.HealthCheckRequest, out grpc_health_v1.Health_WatchServer) error {
	for _, state := range []grpc_health_v1.HealthCheckResponse_ServingStatus{1, 2} {
		if err := out.Send(&grpc_health_v1.HealthCheckResponse{Status: state}); err != nil {
			return err
		}
	}
	return status.Error(codes.ResourceExhausted, "no more")
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newProxy starts a server, a proxy before it and a client of the proxy.
func newProxy(t *testing.T) (server, *rpcproxy.Proxy, grpc_health_v1.HealthClient) {
	t.Helper()
	s := server{asked: make(chan struct{}, 8)}
	g := grpc.NewServer()
	behind := listen(t)
	before := listen(t)
	grpc_health_v1.RegisterHealthServer(g, s)
	go func() { _ = g.Serve(behind) }()
	t.Cleanup(g.Stop)
	p, err := rpcproxy.Start(rpcproxy.Options{
		Listener: before,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", behind.Addr().String())
		},
		Stream: func(method string) bool { return method == grpc_health_v1.Health_Watch_FullMethodName },
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(before.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{conn.Close(), p.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return s, p, grpc_health_v1.NewHealthClient(conn)
}

var loopback = netip.MustParseAddr("127.0.0.1")

func TestFates(t *testing.T) {
	for name, tt := range map[string]struct {
		fate  rpcproxy.Fate
		until func(server, *rpcproxy.Proxy) bool // the client gives up; nil: it does not
		code  codes.Code
		asked bool
	}{
		"done":       {fate: rpcproxy.Done, code: codes.OK, asked: true},
		"unanswered": {fate: rpcproxy.Unanswered, until: answered, code: codes.Canceled, asked: true},
		"late":       {fate: rpcproxy.Late, until: met, code: codes.Canceled, asked: true},
		"lost":       {fate: rpcproxy.Lost, until: met, code: codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, client := newProxy(t)
			p.Next(netip.MustParseAddr("192.0.2.1"), rpcproxy.Lost) // of another client
			p.Next(loopback, tt.fate)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.until != nil {
				go func() {
					for tick := time.Tick(time.Millisecond); !tt.until(s, p); <-tick {
					}
					cancel()
				}()
			}
			_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			if status.Code(err) != tt.code {
				t.Errorf("the client learns %v, want %v", err, tt.code)
			}
			if tt.asked {
				<-s.asked
			}
			// The next request works as usual.
			if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
				t.Error(err)
			}
			<-s.asked
			if len(s.asked) > 0 {
				t.Error("the server got another request")
			}
		})
	}
}

// met reports whether the request has reached the proxy.
func met(_ server, p *rpcproxy.Proxy) bool { return p.Left(loopback) == 0 }

// answered reports whether the server has got the request.
func answered(s server, _ *rpcproxy.Proxy) bool { return len(s.asked) > 0 }

func TestChances(t *testing.T) {
	_, p, client := newProxy(t)
	for name, chances := range map[string]rpcproxy.Chances{
		"requests": {Request: 1}, "answers": {Answer: 1}, "slow": {Slow: 1, SlowBy: time.Hour},
	} {
		p.Change(func(c *rpcproxy.Chances) { *c = chances })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: the client learns %v", name, err)
		}
		cancel()
	}
	p.Change(func(c *rpcproxy.Chances) { *c = rpcproxy.Chances{} })
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestStreamPasses(t *testing.T) {
	_, p, client := newProxy(t)
	p.Change(func(c *rpcproxy.Chances) { c.Request = 1 }) // an unknown method
	stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		if m, err := stream.Recv(); err != nil || int(m.Status) != want+1 {
			t.Fatalf("message %v, error %v, want status %d", m, err, want+1)
		}
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "no more" {
		t.Errorf("the stream ends with %v", err)
	}
}
