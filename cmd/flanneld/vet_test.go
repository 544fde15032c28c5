package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// snapshots is a store with a snapshot.
type snapshots struct {
	server.Store
	now *lease.Snapshot
}

func (s *snapshots) View() lease.View { return lease.View{Snapshot: s.now, Synced: true} }

// A server before a datastore that any program may write hands out no commands. The former config stays.
func TestServerHandsOutNoCommandsOfAnyWriter(t *testing.T) {
	const (
		plain    = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`
		commands = `{"Network":"10.5.0.0/16","Backend":{"Type":"extension","PreStartupCommand":"pre"}}`
		formerly = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[{"Type":"extension"}]}`
	)
	store := &snapshots{}
	var told []string
	v := &vetted{Store: store, report: func(err error) { told = append(told, err.Error()) }}
	if view := v.View(); view.Snapshot != nil || !view.Synced {
		t.Errorf("without a snapshot: %+v", view)
	}
	for i, step := range []struct {
		put, want string
		revision  int64
		told      int
	}{
		{commands, "", 0, 1}, // there was no other
		{plain, plain, 2, 1},
		{commands, plain, 2, 2},
		{formerly, plain, 2, 3},
		{`{"Network":`, `{"Network":`, 5, 3}, // each node refuses it by itself
		{"", "", 6, 3},
	} {
		leases := []*lease.Lease{{}}
		store.now = &lease.Snapshot{
			Revision: int64(i + 1), Leases: leases, Config: lease.Document{Data: []byte(step.put), Revision: int64(i + 1)},
		}
		first := v.View().Snapshot
		got := v.View().Snapshot
		if got != first {
			t.Errorf("step %d: a new snapshot without a change", i)
		}
		if string(got.Config.Data) != step.want || got.Config.Revision != step.revision || len(told) != step.told {
			t.Errorf("step %d: config %s of revision %d, told %q", i, got.Config.Data, got.Config.Revision, told)
		}
		if got.Revision != store.now.Revision || len(got.Leases) != 1 {
			t.Errorf("step %d: revision %d, %d leases", i, got.Revision, len(got.Leases))
		}
	}
	for _, text := range told {
		if !strings.Contains(text, "extension is refused: it runs commands as root") {
			t.Errorf("told %q", text)
		}
	}
}

// Only a server that trusts its own datastore hands out what it holds.
func TestServerVetsAnOpenDatastore(t *testing.T) {
	for args, vets := range map[string]bool{
		"--listen=:0 --etcd-endpoints=http://127.0.0.1:1":                                     true,
		"--listen=:0 --etcd-endpoints=http://127.0.0.1:1 --allow-extension":                   false,
		"--listen=:0 --etcd-endpoints=http://127.0.0.1:1 --etcd-username=u --etcd-password=p": false,
	} {
		o, _, err := parse(strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		store, err := o.openNetwork(t.Context(), o.etcd.URLs(), slog.New(slog.DiscardHandler))("blue")
		if err != nil {
			t.Fatal(err)
		}
		if _, is := store.(*vetted); is != vets {
			t.Errorf("%s: vets %t, want %t", args, is, vets)
		}
		store.Close()
	}
}
