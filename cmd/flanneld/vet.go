package main

import (
	"sync"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// vetted is a store that any program may write, for the clients of a server. Those that know the server by its
// certificate take its config as the operator's word, so it hands out no config with commands: the former one stays.
type vetted struct {
	server.Store
	report func(error)

	mu      sync.Mutex
	seen    *lease.Snapshot // the last one of the store
	shown   *lease.Snapshot // what clients get in its place
	good    lease.Document  // the last config without commands
	refused string          // the last config with commands
}

// View implements [lease.Store].
func (v *vetted) View() lease.View {
	view := v.Store.View()
	if view.Snapshot != nil {
		view.Snapshot = v.vet(view.Snapshot)
	}
	return view
}

func (v *vetted) vet(snap *lease.Snapshot) *lease.Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	if snap == v.seen {
		return v.shown
	}
	v.seen, v.shown = snap, snap
	err := node.CheckCommands(snap.Config.Data)
	if err == nil {
		v.good, v.refused = snap.Config, ""
		return snap
	}
	if text := string(snap.Config.Data); text != v.refused {
		v.refused = text
		v.report(err)
	}
	own := *snap
	own.Config = v.good
	v.shown = &own
	return v.shown
}
