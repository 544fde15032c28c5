// Package daemon finds the flanneld processes of this host, and asks a running one: that
// of this host at its control socket, or another one at its health listener. Package
// control describes the pages.
package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/noredirect"
)

// askLimit is the longest time that an answer may take. A busy daemon says so within
// seconds.
const askLimit = 10 * time.Second

// Client asks one daemon.
type Client struct {
	http *http.Client
	base string
	// For errors: where the daemon answers, and why a connection is refused there.
	at, refused string
	limit       int64 // of an answer, in bytes

	connected *atomic.Bool // says whether there was ever a connection; nil: nothing leads there
}

// Local returns a client of the daemon on this host that writes a subnet file.
func Local(subnetFile string) *Client {
	path := control.Socket(subnetFile)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{
		http: noredirect.Client(&http.Client{Transport: &http.Transport{DialContext: dial}}), base: "http://flanneld",
		at: path, refused: "it has ended, or was killed", limit: maxAnswer,
	}
}

// Remote returns a client of a daemon's health listener at an address such as
// "10.0.0.3:8081". It asks the node itself, also where the environment names a proxy.
func Remote(address string) *Client {
	base := strings.TrimSuffix(address, "/")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	return &Client{
		http: noredirect.Client(&http.Client{Transport: &http.Transport{}}), base: base,
		at: base, refused: "does it run, and listen there (--healthz-ip, --healthz-port)?", limit: maxAnswer,
	}
}

// Through returns a client of a daemon's health listener to which dial connects. At says where that is.
func Through(dial func(context.Context) (net.Conn, error), at string) *Client {
	connected := new(atomic.Bool)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err == nil {
				connected.Store(true)
			}
			return conn, err
		},
	}
	return &Client{
		http: noredirect.Client(&http.Client{Transport: transport}), base: "http://flanneld",
		at: at, refused: "does it run, and listen there (--healthz-ip, --healthz-port)?", limit: maxAnswer,
		connected: connected,
	}
}

// Status returns the daemon's status. A busy daemon returns its last known one, with
// its age.
func (c *Client) Status(ctx context.Context) (s node.Status, err error) {
	err = c.get(ctx, control.StatusPage, &s)
	return s, err
}

// Peers returns the daemon's peers.
func (c *Client) Peers(ctx context.Context) (p control.Peers, err error) {
	err = c.get(ctx, control.PeersPage, &p)
	return p, err
}

// Diff returns the difference between the desired and the actual state.
func (c *Client) Diff(ctx context.Context) (d control.Diff, err error) {
	err = c.get(ctx, control.DiffPage, &d)
	return d, err
}

// State returns the desired and the actual state.
func (c *Client) State(ctx context.Context) (s control.State, err error) {
	err = c.get(ctx, control.StatePage, &s)
	return s, err
}

// Events returns the last events that the daemon remembers.
func (c *Client) Events(ctx context.Context) (e control.Events, err error) {
	err = c.get(ctx, control.EventsPage, &e)
	return e, err
}

// get asks for a page and reads the answer into a value.
func (c *Client) get(ctx context.Context, page string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+page, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 3 {
		return fmt.Errorf("flanneld at %s: its answer leads to another place (%s), where flannelctl does not go: that is "+
			"no flanneld", c.at, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("flanneld at %s: %s", c.at, cmp.Or(strings.TrimSpace(string(text)), resp.Status))
	}
	body := io.LimitedReader{R: resp.Body, N: c.limit}
	err = json.NewDecoder(&body).Decode(into)
	switch {
	case err != nil && body.N == 0:
		return fmt.Errorf("flanneld at %s: its answer has more than %d bytes: that is no flanneld", c.at, c.limit)
	case err != nil:
		return fmt.Errorf("flanneld at %s: read its answer: %w", c.at, err)
	case reflect.ValueOf(into).Elem().IsZero(): // each page of a daemon says when it was taken
		return fmt.Errorf("flanneld at %s: its answer says nothing: that is no flanneld", c.at)
	}
	return nil
}

// maxAnswer is more than a daemon with 5,000 peers answers. Another program may listen there.
const maxAnswer = 64 << 20

// unreachable explains why no daemon answers.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no permission to ask flanneld at %s: run as root", c.at)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("no flanneld answers: there is no socket %s; "+
			"is flanneld running, and is --subnet-file that of its flags?", c.at)
	case errors.Is(err, syscall.ECONNREFUSED) && isOther(c.at):
		return fmt.Errorf("no flanneld answers: %s is no socket; another program has made it", c.at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no flanneld answers at %s: %s", c.at, c.refused)
	case errors.Is(err, context.DeadlineExceeded) && c.connected != nil && !c.connected.Load():
		return fmt.Errorf("no connection to flanneld at %s within %s: the API server, or the kubelet behind it, "+
			"does not answer", c.at, askLimit)
	case errors.Is(err, context.DeadlineExceeded):
		return hangs(fmt.Sprintf("flanneld at %s does not answer within %s: its process hangs", c.at, askLimit))
	}
	return fmt.Errorf("ask flanneld at %s: %w", c.at, err)
}

// hangs is the error of a daemon that takes a connection and does not answer. It is a
// [context.DeadlineExceeded].
type hangs string

func (h hangs) Error() string { return string(h) }
func (hangs) Unwrap() error   { return context.DeadlineExceeded }

// isOther reports whether there is a file of another type than a socket at a path.
func isOther(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeSocket == 0
}

// waitEvery is the time between two questions of WaitReady.
const waitEvery = 200 * time.Millisecond

// WaitReady waits until the node is ready, and returns its status. If ctx ends first,
// it returns the last status, and the last error if there was no answer.
func (c *Client) WaitReady(ctx context.Context) (node.Status, error) {
	ticker := time.NewTicker(waitEvery)
	defer ticker.Stop()
	var last node.Status
	lastErr := fmt.Errorf("no flanneld answers at %s in the time given", c.at)
	for {
		s, err := c.Status(ctx)
		if err == nil || ctx.Err() == nil { // else the end of ctx is the error
			last, lastErr = s, err
		}
		if err == nil && s.Ready {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return last, lastErr
		case <-ticker.C:
		}
	}
}
