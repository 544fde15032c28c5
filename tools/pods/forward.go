package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/flanneld/flannel/internal/noredirect"
)

// protocol is the version of the protocol in which a connection has streams of errors and of data.
const protocol = "portforward.k8s.io"

// The headers of a stream, and the types of streams.
const (
	typeHeader    = "streamType"
	portHeader    = "port"
	requestHeader = "requestID"
	errorStream   = "error"
	dataStream    = "data"
)

// Dial connects to the pod's health listener. It speaks SPDY, which all API servers do: WebSocket is
// for proxies that do not, and would make flanneld's program 4 MB larger.
func (c *Cluster) Dial(ctx context.Context, p Pod) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := c.forward(p)
	if err != nil {
		return nil, fmt.Errorf("forward port %d of pod %s through %s: %w", p.Port, p.Name, c.base, err)
	}
	return f, nil
}

func (c *Cluster) forward(p Pod) (*forwarded, error) {
	if faults := content.IsPathSegmentName(p.Name); p.Name == "" || len(faults) > 0 {
		return nil, fmt.Errorf("%q is no name of a pod", p.Name) // it would lead to another object
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	u := c.base.JoinPath("api/v1/namespaces", c.namespace, "pods", p.Name, "portforward")
	client := noredirect.Client(&http.Client{Transport: transport})
	dialer := spdy.NewDialerForStreaming(upgrader, client, http.MethodPost, u)
	conn, spoken, err := dialer.Dial(protocol)
	if err != nil {
		return nil, err
	}
	if spoken != protocol {
		return nil, errors.Join(fmt.Errorf("it speaks %q, and not %s", spoken, protocol), conn.Close())
	}
	f, err := newForwarded(conn, p)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return f, nil
}

// forwarded is a connection through the API server. It implements [net.Conn]; its user ends it in place
// of setting deadlines.
type forwarded struct {
	conn   httpstream.Connection
	data   httpstream.Stream
	failed chan error // gets why the node could not connect, or nil
	pod    Pod
}

func newForwarded(conn httpstream.Connection, p Pod) (*forwarded, error) {
	header := http.Header{}
	header.Set(typeHeader, errorStream)
	header.Set(portHeader, strconv.Itoa(int(p.Port)))
	header.Set(requestHeader, "0")
	faults, err := conn.CreateStream(header)
	if err != nil {
		return nil, err
	}
	if err := faults.Close(); err != nil { // nothing is written to it
		return nil, err
	}
	f := &forwarded{conn: conn, failed: make(chan error, 1), pod: p}
	header.Set(typeHeader, dataStream)
	f.data, err = conn.CreateStream(header)
	if err != nil {
		return nil, err
	}
	go func() {
		text, err := io.ReadAll(io.LimitReader(faults, 10_000))
		switch {
		case err != nil:
			f.failed <- err
		case len(text) > 0:
			f.failed <- errors.New(string(text))
		default:
			f.failed <- nil
		}
	}()
	return f, nil
}

// Read reads what the listener sends. At its end it returns why there is nothing more.
func (f *forwarded) Read(b []byte) (int, error) {
	n, err := f.data.Read(b)
	if err == nil || n > 0 {
		return n, nil
	}
	select {
	case why := <-f.failed:
		f.failed <- nil
		if why != nil {
			return 0, fmt.Errorf("forward port %d of pod %s: %w", f.pod.Port, f.pod.Name, why)
		}
	case <-f.conn.CloseChan():
	}
	return 0, err
}

func (f *forwarded) Write(b []byte) (int, error) { return f.data.Write(b) }

// Close ends the connection to the API server with both streams.
func (f *forwarded) Close() error { return f.conn.Close() }

func (f *forwarded) LocalAddr() net.Addr            { return address("flannelctl") }
func (f *forwarded) RemoteAddr() net.Addr           { return address(f.pod.Name) }
func (*forwarded) SetDeadline(time.Time) error      { return nil }
func (*forwarded) SetReadDeadline(time.Time) error  { return nil }
func (*forwarded) SetWriteDeadline(time.Time) error { return nil }

// address is the address of an end of a forwarded connection.
type address string

func (address) Network() string  { return "pod" }
func (a address) String() string { return string(a) }
