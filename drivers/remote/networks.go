package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/internal/following"
	"github.com/flanneld/flannel/internal/orphans"
	"github.com/flanneld/flannel/internal/pause"
	"github.com/flanneld/flannel/internal/wake"
)

// networksInterval is the time between two looks for networks.
const networksInterval = 5 * time.Second

// Networks are the names of the networks at the servers (interop 3.9: server API). It asks
// for all names at intervals, which servers of v0.5 to v0.7 answer, too.
type Networks struct {
	o       Options
	bases   []string // the URL of the list at each server
	client  *http.Client
	conns   orphans.Conns
	work    *following.Work
	changed wake.Signal
	told    complaint.Told // run alone uses it

	mu       sync.Mutex
	names    []string
	revision int64
	synced   bool
}

// OpenNetworks starts to follow the networks, until Close or the end of ctx. The prefix of
// the options ends with the name of the unnamed network, or of any other. OpenNetworks fails
// at once if the options are wrong, but not if no server is reachable.
func OpenNetworks(ctx context.Context, o Options) (*Networks, error) {
	o = o.withDefaults()
	o.Prefix = path.Dir(o.Prefix)
	bases, err := o.bases()
	if err != nil {
		return nil, err
	}
	n := &Networks{o: o, bases: bases, changed: wake.NewSignal()}
	n.client, err = o.client(&n.conns)
	if err != nil {
		return nil, err
	}
	n.work = following.NewWork(ctx)
	n.work.Start(func() { n.run(n.work.Context()) })
	return n, nil
}

// Close ends the following.
func (n *Networks) Close() {
	n.work.Close()
	n.client.CloseIdleConnections()
}

// Names returns the names and the revision at which they stand. Synced is false while no
// server answers.
func (n *Networks) Names() (names []string, revision int64, synced bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names, n.revision, n.synced
}

// Changed receives a value after Names has changed. It is coalesced.
func (n *Networks) Changed() <-chan struct{} { return n.changed }

// run asks the servers in turn, and goes on with the one that answered last.
func (n *Networks) run(ctx context.Context) {
	for at, failed := 0, 0; ; {
		n.conns.Cut()
		names, revision, err := n.ask(ctx, n.bases[at])
		if err == nil {
			n.told.Forget()
			failed = 0
			n.take(names, revision, true)
		} else {
			err = fmt.Errorf("server %s: %w", n.bases[at], err)
			if ctx.Err() == nil && n.told.IsNew(err.Error()) {
				n.o.Log.Warn("the names of the networks are not known", "err", err)
			}
			at, failed = (at+1)%len(n.bases), failed+1
			n.take(nil, 0, false)
		}
		if failed > 0 && failed < len(n.bases) {
			continue // another server may answer
		}
		failed = 0
		if !pause.For(ctx, networksInterval) {
			return
		}
	}
}

// take records the result of a look.
func (n *Networks) take(names []string, revision int64, synced bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if synced == n.synced && (!synced || slices.Equal(names, n.names)) {
		return
	}
	n.synced = synced
	if synced {
		n.names, n.revision = names, revision
	}
	n.changed.Send()
}

// ask asks one server.
func (n *Networks) ask(ctx context.Context, base string) (names []string, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/", nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, 0, fmt.Errorf("it does not list its networks (%s): name them with --networks, or use a later server",
			textOf(resp))
	case resp.StatusCode != http.StatusOK:
		return nil, 0, fmt.Errorf("list of networks: %s", textOf(resp))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, 0, err
	}
	return api.ParseNetworks(body)
}
