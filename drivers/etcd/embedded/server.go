package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Options say where the data is, and how clients reach the server.
type Options struct {
	// Dir holds the data; it is created for the owner alone if missing.
	Dir string
	// ListenClient are the URLs to serve; default: the socket in Dir alone.
	ListenClient []string
	// CertFile and KeyFile serve https URLs; a ClientCAFile demands a
	// certificate of every client.
	CertFile, KeyFile, ClientCAFile string
	// UnsafeNoSync lets the kernel decide when to write to disk, and makes
	// passwords quick to check. It is for data that a power cut may destroy,
	// such as a test's.
	UnsafeNoSync bool
	// Alone removes the other members from the data, for an operator who has
	// lost them for good.
	Alone bool
	// Logger receives etcd's own log; default: only Fatal gets something.
	Logger *zap.Logger
	// Fatal takes a line that says why etcd ends the process; default: it goes to standard error.
	Fatal func(text string)
}

// Server is a running etcd.
type Server struct {
	lock       *os.File
	etcd       *embed.Etcd
	client     *clientv3.Client
	endStreams context.CancelFunc
}

// Start runs an etcd and returns when it can serve. Ending ctx ends only the wait.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("embedded etcd: no data directory given")
	}
	// etcd creates the directory too, but leaves the mode of an existing one:
	// the data holds every node's keys.
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: create data directory: %w", err)
	}
	if err := os.Chmod(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: close data directory to others: %w", err)
	}
	if len(o.ListenClient) == 0 {
		socket, err := SocketURL(o.Dir)
		if err != nil {
			return nil, fmt.Errorf("embedded etcd: %w", err)
		}
		o.ListenClient = []string{socket}
	}
	cfg, err := configure(o)
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	e, endStreams, err := serveOrFail(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("embedded etcd in %s: %w", o.Dir, errors.Join(err, lock.Close()))
	}
	return &Server{lock: lock, etcd: e, client: v3client.New(e.Server), endStreams: endStreams}, nil
}

// serveOrFail is serve. A panic of etcd, as a damaged write-ahead log causes, becomes an error.
func serveOrFail(ctx context.Context, cfg *embed.Config) (e *embed.Etcd, endStreams context.CancelFunc, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = errors.New(ended(cfg.Dir, fmt.Sprint(why)))
		}
	}()
	return serve(ctx, cfg)
}

// serve runs an etcd and returns when it can serve. endStreams ends the streams of its clients.
func serve(ctx context.Context, cfg *embed.Config) (_ *embed.Etcd, endStreams context.CancelFunc, err error) {
	streams, endStreams := context.WithCancel(context.Background())
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(until(streams))}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		endStreams()
		return nil, nil, err
	}
	err = closeToOthers(e)
	if err != nil {
		endStreams()
		e.Close()
		return nil, nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-e.Server.StopNotify():
		err = errors.New("stopped before it was ready")
	case err = <-e.Err():
	case <-ctx.Done():
		err = fmt.Errorf("wait until ready: %w", context.Cause(ctx))
	}
	if err != nil {
		endStreams()
		e.Close()
		return nil, nil, err
	}
	return e, endStreams, nil
}

// until ends all streams when ctx ends. Otherwise etcd waits seconds for the
// watches of its clients before it closes, and they never end.
func until(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		streamCtx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		stop := context.AfterFunc(ctx, cancel)
		defer stop()
		return handle(srv, &endedStream{stream, streamCtx})
	}
}

// endedStream is a stream with a context that ends earlier.
type endedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endedStream) Context() context.Context { return s.ctx }

// configure translates the options into those of a cluster of one.
func configure(o Options) (*embed.Config, error) {
	cfg := embed.NewConfig()
	cfg.Name = "flannel" // etcd warns about its own default name
	cfg.Dir = o.Dir
	cfg.UnsafeNoFsync, cfg.ForceNewCluster = o.UnsafeNoSync, o.Alone
	if o.UnsafeNoSync {
		cfg.BcryptCost = 4 // the minimum; the default takes the race detector two seconds on a busy machine
	}

	// There is no second member. etcd still requires a peer URL, but need not
	// listen there.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	cfg.ListenClientUrls = nil
	for _, s := range o.ListenClient {
		u, err := url.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("listen address: %w", err)
		}
		cfg.ListenClientUrls = append(cfg.ListenClientUrls, *u)
	}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = o.CertFile, o.KeyFile
	cfg.ClientTLSInfo.TrustedCAFile = o.ClientCAFile
	cfg.ClientTLSInfo.ClientCertAuth = o.ClientCAFile != ""

	// No client speaks JSON to it.
	cfg.EnableGRPCGateway = false

	// A lease is rewritten rarely, and for years: without compaction the
	// history would never stop growing.
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = "1h"

	if o.Logger == nil {
		o.Logger = newLastWords(o.Dir, o.Fatal)
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(o.Logger)
	return cfg, nil
}

// Endpoints returns the URLs at which this host reaches the server.
func (s *Server) Endpoints() []string {
	scheme := "http"
	if s.etcd.Config().ClientTLSInfo.CertFile != "" {
		scheme = "https"
	}
	urls := make([]string, len(s.etcd.Clients))
	for i, l := range s.etcd.Clients {
		// The listeners know the ports that the kernel chose.
		switch a := l.Addr().(type) {
		case *net.UnixAddr:
			urls[i] = "unix://" + a.Name
		case *net.TCPAddr:
			urls[i] = scheme + "://" + reachable(a.AddrPort()).String()
		}
	}
	return urls
}

// reachable turns a listener on all addresses into one on loopback.
func reachable(a netip.AddrPort) netip.AddrPort {
	switch addr := a.Addr().Unmap(); {
	case !addr.IsUnspecified():
		return netip.AddrPortFrom(addr, a.Port())
	case addr.Is4():
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
	default:
		return netip.AddrPortFrom(netip.IPv6Loopback(), a.Port())
	}
}

// Client returns a client that calls the server directly, without a
// connection and without authentication. It lives as long as the server.
func (s *Server) Client() *clientv3.Client { return s.client }

// Err receives the error that ends the server while it should be running.
func (s *Server) Err() <-chan error { return s.etcd.Err() }

// Close ends the server. The data stays.
func (s *Server) Close() error {
	s.endStreams()
	err := s.client.Close()
	s.etcd.Close()
	if errors.Is(err, context.Canceled) {
		err = nil // the error of closing a client without a connection
	}
	return errors.Join(err, s.lock.Close())
}
