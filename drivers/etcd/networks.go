package etcd

import (
	"cmp"
	"context"
	"path"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/internal/following"
	"github.com/flanneld/flannel/internal/pause"
)

// Networks are the names below the store's prefix that have a config of their own
// (interop 3.9: several networks). The store looks for them at intervals, with a
// small request for each name: a watch would get every lease of every network.
type Networks struct {
	*following.Networks
	store *Store
}

// Networks starts to follow the networks, until the store is closed.
func (s *Store) Networks() *Networks {
	n := &Networks{following.NewNetworks(), s}
	s.work.Start(func() { n.run(s.ctx) })
	return n
}

func (n *Networks) run(ctx context.Context) {
	for {
		names, revision, err := n.look(ctx)
		n.Take(names, revision, err)
		if !pause.For(ctx, following.NetworksEvery) {
			return
		}
	}
}

// look reads all names at one revision, skips the keys below each, and returns
// the names that have a config.
func (n *Networks) look(ctx context.Context) (names []string, revision int64, err error) {
	root := path.Dir(n.store.configKey) + "/"
	end := clientv3.GetPrefixRangeEnd(root)
	for from := root; ; {
		var resp, config *clientv3.GetResponse
		err = n.store.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
			resp, err = c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly(),
				clientv3.WithRev(revision))
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		revision = cmp.Or(revision, resp.Header.Revision)
		if len(resp.Kvs) == 0 {
			return names, revision, nil
		}
		name, below, isDir := strings.Cut(strings.TrimPrefix(string(resp.Kvs[0].Key), root), "/")
		from = root + name + "\x00"
		if !isDir {
			continue
		}
		from = root + name + "0" // the first key after all below name/
		key := root + name + "/config"
		if name == "" || below == "" {
			continue
		}
		err = n.store.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
			config, err = c.Get(ctx, key, clientv3.WithKeysOnly(), clientv3.WithRev(revision))
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		if len(config.Kvs) > 0 {
			names = append(names, name)
		}
	}
}
