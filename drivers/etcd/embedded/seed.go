package embedded

import (
	"context"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// SeedConfig stores the network config under the prefix, unless the datastore
// holds one already: it never overwrites an operator's config. It reports
// whether it stored it.
func SeedConfig(ctx context.Context, kv clientv3.KV, prefix string, data []byte) (bool, error) {
	key := path.Join(prefix, "config")
	resp, err := kv.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, string(data))).
		Commit()
	if err != nil {
		return false, fmt.Errorf("seed network config %s: %w", key, err)
	}
	return resp.Succeeded, nil
}
