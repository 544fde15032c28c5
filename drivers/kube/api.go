package kube

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/internal/noredirect"
	"github.com/flanneld/flannel/internal/orphans"
)

// api is the store's interface to an API server.
type api interface {
	// list reads one part of all nodes; token is the next of the last part.
	list(ctx context.Context, token string, each func(item)) (page, error)
	// stream reads all nodes, as a watch that begins with them.
	stream(ctx context.Context) (stream, error)
	// watch follows all nodes from a revision on. Unless whole is set, its items are partial. Many says that
	// events come all the time.
	watch(ctx context.Context, from int64, whole, many bool) (stream, error)
	// get reads a node as of a revision or later.
	get(ctx context.Context, name string, from int64) (item, error)
	// patch changes the status subresource of a node.
	patch(ctx context.Context, name string, change []byte) (item, error)
	nodeOfPod(ctx context.Context, namespace, name string) (string, error)
	createEvent(ctx context.Context, namespace string, event []byte) error
	patchEvent(ctx context.Context, namespace, name string, change []byte) error
}

// stream is a watch. Next blocks; io.EOF means that the server ended it in
// order.
type stream interface {
	next() (kind string, it item, err error)
	Close() error
}

// chunk is the number of nodes in one request: an API server reads that many
// objects without a pause that other clients notice.
const chunk = "500"

// dialTime bounds a new connection.
const dialTime = 30 * time.Second

// keepAlive checks a connection on which nothing comes, and ends it 45 s after the other end is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// silence is how long a watch may bring nothing: an API server sends a bookmark each minute or so
// (bookmarkFrequency in its cacher.go). What keeps a connection alive, such as a load balancer or HTTP/2's pings, may
// be alive when the watch is not.
const silence = 3 * time.Minute

// errSilent ends a watch that brings nothing.
var errSilent = fmt.Errorf("nothing came for %v, not even a bookmark", silence)

// watchTime is the least duration of a watch at the server, so that the load
// spreads over its replicas again; the client ends a watch after one and a half
// times that.
const watchTime = 5 * time.Minute

// server is a real API server.
type server struct {
	names nodelease.Names
	conns orphans.Conns
	load  func() (*rest.Config, error)

	mu   sync.Mutex
	now  clients
	read time.Time // when the credentials were read
	bad  bool      // a handshake has failed since
}

// clients send requests with the same credentials.
type clients struct {
	usual  *rest.RESTClient
	simple *rest.RESTClient // speaks HTTP/1.1, for watches with many events
}

// newServer returns the client of an API server. Load reads the credentials: once now, and again after a failed
// handshake.
func newServer(load func() (*rest.Config, error), names nodelease.Names) (*server, error) {
	s := &server{names: names, load: load}
	var err error
	s.now, err = s.connect()
	s.read = time.Now()
	return s, err
}

// rereadAfter is the least time between two readings of the credentials.
const rereadAfter = 5 * time.Second

// clients returns the clients for the next request. After a failed handshake they are new ones, with the
// credentials as the files hold them now: the authority of the API server may have been replaced.
func (s *server) clients() clients {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.bad || time.Since(s.read) < rereadAfter {
		return s.now
	}
	s.read = time.Now()
	if now, err := s.connect(); err == nil { // else the files are just being replaced
		s.now, s.bad = now, false
	}
	return s.now
}

// observed notes failed handshakes.
type observed struct {
	http.RoundTripper
	server *server
}

// RoundTrip implements [http.RoundTripper].
func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(r)
	if errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.AlertError)) {
		o.server.mu.Lock()
		o.server.bad = true
		o.server.mu.Unlock()
	}
	return resp, err
}

// connect makes clients with the present credentials.
func (s *server) connect() (clients, error) {
	cfg, err := s.load()
	if err != nil {
		return clients{}, err
	}
	cfg = rest.CopyConfig(cfg)
	v1 := schema.GroupVersion{Version: "v1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1) // only errors need decoding
	cfg.GroupVersion, cfg.APIPath = &v1, "/api"
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.QPS, cfg.Burst = requestsPerSecond, requestsAtOnce
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive}).DialContext
	}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return s.conns.Keep(raw), nil
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return observed{next, s} })
	simple := rest.CopyConfig(cfg)
	simple.NextProtos = []string{"http/1.1"}
	var c clients
	var other error
	c.usual, err = rest.RESTClientFor(cfg)
	c.simple, other = rest.RESTClientFor(simple)
	if err := errors.Join(err, other); err != nil {
		return clients{}, fmt.Errorf("kubernetes client: %w", err)
	}
	// An API server never redirects, and credentials must not reach another host.
	c.usual.Client, c.simple.Client = noredirect.Client(c.usual.Client), noredirect.Client(c.simple.Client)
	bound(c.usual.Client, answerLimit)
	bound(c.simple.Client, answerLimit)
	return c, nil
}

// The limits of one node's requests, in every failure: client-go's own
// defaults. A node reads a cluster of 5,000 nodes with at most ten requests.
const (
	requestsPerSecond = 5
	requestsAtOnce    = 10
)

// request begins a request. It first closes connections from addresses that the
// host has lost: the request may announce the new one. client-go must not retry
// it, because its callers do, with a growing delay.
func (s *server) request(verb string) *rest.Request { return s.requestBy(s.clients().usual, verb) }

func (s *server) requestBy(client *rest.RESTClient, verb string) *rest.Request {
	s.conns.Cut()
	return client.Verb(verb).MaxRetries(0)
}

func (s *server) list(ctx context.Context, token string, each func(item)) (page, error) {
	req := s.request(http.MethodGet).Resource("nodes").Param("limit", chunk)
	if token != "" {
		req = req.Param("continue", token)
	}
	body, err := req.Stream(ctx)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	return decodeList(&reader{from: buffered(body)}, s.names, each)
}

func (s *server) stream(ctx context.Context) (stream, error) {
	return s.open(ctx, true, s.request(http.MethodGet).Param("sendInitialEvents", "true").
		Param("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan)))
}

// watch implements [api]. Where events come one by one and all the time, each costs half as much CPU by HTTP/1.1:
// HTTP/2 sends an update of its window and wakes another goroutine for it. Where they are rare, the pings of HTTP/2
// keep load balancers from ending a connection that looks idle.
func (s *server) watch(ctx context.Context, from int64, whole, many bool) (stream, error) {
	client := s.clients().usual
	if many {
		client = s.clients().simple
	}
	return s.open(ctx, whole, s.requestBy(client, http.MethodGet).Param("resourceVersion", strconv.FormatInt(from, 10)))
}

// metadataOnly asks the API server for the metadata of objects alone.
const metadataOnly = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// open begins a watch of all nodes.
func (s *server) open(ctx context.Context, whole bool, req *rest.Request) (stream, error) {
	length := watchTime + time.Duration(rand.Int64N(int64(watchTime)))
	accept := runtime.ContentTypeProtobuf + ";stream=watch"
	if !whole {
		accept += metadataOnly
	}
	ctx, stop := context.WithTimeout(ctx, length+watchTime/2)
	ctx, cancel := context.WithCancelCause(ctx)
	end := func(cause error) {
		cancel(cause)
		stop()
	}
	quiet := time.AfterFunc(silence, func() { end(errSilent) })
	body, err := req.Resource("nodes").SetHeader("Accept", accept).
		Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", strconv.Itoa(int(length/time.Second))).Stream(ctx)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		quiet.Stop()
		end(nil)
		return nil, err
	}
	return &serverStream{
		body: body, reader: reader{from: buffered(body)}, names: s.names, partial: !whole, ctx: ctx, end: end, quiet: quiet,
	}, nil
}

// buffered reads an answer in large parts. For each read of 4 kB or more, the
// HTTP/2 client sends the server an update of the window, a system call that
// costs more than the decoding of a node.
func buffered(body io.Reader) *bufio.Reader { return bufio.NewReaderSize(body, 64<<10) }

type serverStream struct {
	body    io.Closer
	reader  reader
	names   nodelease.Names
	partial bool
	ctx     context.Context // ends with the watch
	end     context.CancelCauseFunc
	quiet   *time.Timer // ends a watch that brings nothing
}

func (s *serverStream) next() (string, item, error) {
	frame, err := s.reader.frame()
	if err != nil {
		if errors.Is(context.Cause(s.ctx), errSilent) {
			err = io.EOF // as at an orderly end: the next watch shows whether the server is well
		}
		return "", item{}, err
	}
	s.quiet.Reset(silence)
	kind, it, err := decodeEvent(frame, s.names)
	it.partial = s.partial
	return kind, it, err
}

func (s *serverStream) Close() error {
	s.quiet.Stop()
	s.end(nil)
	return s.body.Close()
}

func (s *server) get(ctx context.Context, name string, from int64) (item, error) {
	return s.node(s.request(http.MethodGet).Resource("nodes").Name(name).
		Param("resourceVersion", strconv.FormatInt(from, 10)).Do(ctx))
}

func (s *server) patch(ctx context.Context, name string, change []byte) (item, error) {
	return s.node(s.request(http.MethodPatch).
		SetHeader("Content-Type", string(types.StrategicMergePatchType)).
		Resource("nodes").Name(name).SubResource("status").
		Body(change).Do(ctx))
}

func (s *server) node(res rest.Result) (item, error) {
	raw, err := object(res)
	if err != nil {
		return item{}, err
	}
	return decodeNode(raw, s.names)
}

func (s *server) nodeOfPod(ctx context.Context, namespace, name string) (string, error) {
	raw, err := object(s.request(http.MethodGet).Namespace(namespace).Resource("pods").Name(name).Do(ctx))
	if err != nil {
		return "", err
	}
	return decodePod(raw)
}

func (s *server) createEvent(ctx context.Context, namespace string, event []byte) error {
	return s.request(http.MethodPost).SetHeader("Content-Type", runtime.ContentTypeJSON).
		Namespace(namespace).Resource("events").Body(event).Do(ctx).Error()
}

func (s *server) patchEvent(ctx context.Context, namespace, name string, change []byte) error {
	return s.request(http.MethodPatch).SetHeader("Content-Type", string(types.MergePatchType)).
		Namespace(namespace).Resource("events").Name(name).Body(change).Do(ctx).Error()
}

func object(res rest.Result) ([]byte, error) {
	body, err := res.Raw()
	if err != nil {
		if status := res.Error(); status != nil {
			err = status
		}
		return nil, err
	}
	return unwrap(body)
}
