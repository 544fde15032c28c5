package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/internal/following"
	"github.com/flanneld/flannel/internal/orphans"
	"github.com/flanneld/flannel/internal/pause"
)

// Networks are the names of the networks at the servers (interop 3.9: server API). It asks
// for all names at intervals, which servers of v0.5 to v0.7 answer, too.
type Networks struct {
	*following.Networks
	o      Options
	bases  []string // the URL of the list at each server
	client *http.Client
	conns  orphans.Conns
	work   *following.Work
	told   complaint.Told // run alone uses it
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
	n := &Networks{Networks: following.NewNetworks(), o: o, bases: bases}
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

// run asks the servers in turn, and goes on with the one that answered last.
func (n *Networks) run(ctx context.Context) {
	for at, failed := 0, 0; ; {
		n.conns.Cut()
		names, revision, err := n.ask(ctx, n.bases[at])
		n.Take(names, revision, err)
		if err == nil {
			n.told.Forget()
			failed = 0
		} else {
			err = fmt.Errorf("server %s: %w", n.bases[at], err)
			if ctx.Err() == nil && n.told.IsNew(err.Error()) {
				n.o.Log.Warn("the names of the networks are not known", "err", err)
			}
			at, failed = (at+1)%len(n.bases), failed+1
		}
		if failed > 0 && failed < len(n.bases) {
			continue // another server may answer
		}
		failed = 0
		if !pause.For(ctx, following.NetworksEvery) {
			return
		}
	}
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
