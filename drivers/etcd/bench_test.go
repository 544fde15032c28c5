package etcd

import (
	"context"
	"testing"

	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

// BenchmarkOpen opens a store on a real etcd with many leases and waits for the
// first snapshot.
func BenchmarkOpen(b *testing.B) {
	server, err := embedded.Start(context.Background(), embedded.Options{Dir: b.TempDir(), UnsafeNoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	for _, kv := range records(many).list() {
		if _, err := server.Client().Put(context.Background(), string(kv.Key), string(kv.Value)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := Open(context.Background(), Options{Endpoints: server.Endpoints(), Prefix: "/coreos.com/network"})
		if err != nil {
			b.Fatal(err)
		}
		for s.View().Snapshot == nil {
			<-s.Changed()
		}
		if n := len(s.View().Snapshot.Leases); n != many {
			b.Fatal(n)
		}
		s.Close()
	}
}
