package linux

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/udppath"
	"github.com/flanneld/flannel/drivers/linux/tunnel"
)

// proxies holds the packet paths of this driver. They are its only memory of
// former ops, because the kernel does not know them.
type proxies struct {
	byLink  map[string]running
	changed func() // called when a path ends, or carries packets in another way
}

// running is a packet path with the object that describes it.
type running struct {
	dataplane.Proxy
	*tunnel.Tunnel
}

func newProxies(changed func()) *proxies {
	return &proxies{byLink: map[string]running{}, changed: changed}
}

// close ends all of them. Their devices stay, with addresses and routes.
func (ps *proxies) close() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(ps.byLink)) {
		errs = append(errs, ps.stop(name))
	}
	return errors.Join(errs...)
}

// alive returns a packet path that carries packets.
func (ps *proxies) alive(link string) (running, bool) {
	r, ok := ps.byLink[link]
	return r, ok && r.Alive()
}

// apply does one op on a proxy of a device with an index, 0 for none, in the network namespace of the thread. A path of
// another device, which had the name before, ends.
func (ps *proxies) apply(verb dataplane.Verb, want dataplane.Proxy, index int) error {
	have, alive := ps.alive(want.Link)
	if alive && have.Index() != index {
		if err := ps.stop(want.Link); err != nil {
			return err
		}
		alive = false
	}
	switch {
	case verb == dataplane.Delete && !alive:
		return unix.ENOENT
	case verb == dataplane.Delete:
		return ps.stop(want.Link)
	case verb == dataplane.Create && alive:
		return unix.EEXIST
	}
	table, err := localTable(want, have, alive)
	if err != nil {
		return err
	}
	if alive && have.Local == want.Local && have.Offload == want.Offload {
		have.SetTable(table)
		ps.byLink[want.Link] = running{want, have.Tunnel}
		return nil
	}
	if err := ps.stop(want.Link); err != nil {
		return err
	}
	t, err := tunnel.Open(want, table, ps.changed)
	if err == nil {
		ps.byLink[want.Link] = running{want, t}
	}
	return err
}

// localTable returns the table of a new proxy, with the peers of the one it
// replaces.
func localTable(want dataplane.Proxy, have running, alive bool) (*udppath.Table, error) {
	local := udppath.Local{Addr: want.Subnet.Addr(), Subnet: want.Subnet, MTU: want.MTU}
	if alive {
		return have.Table().WithLocal(local)
	}
	return udppath.NewTable(local)
}

// stop ends a packet path, if there is one, dead or alive.
func (ps *proxies) stop(link string) error {
	r, ok := ps.byLink[link]
	if !ok {
		return nil
	}
	delete(ps.byLink, link)
	return r.Close()
}

// rename follows a link to another name. The packet path holds the device open, and carries on.
func (ps *proxies) rename(from, to string) {
	if r, ok := ps.byLink[from]; ok {
		delete(ps.byLink, from)
		r.Link = to
		ps.byLink[to] = r
	}
}

// applyPeer does one op on a peer, which takes effect between two packets.
func (ps *proxies) applyPeer(verb dataplane.Verb, want dataplane.Peer) error {
	r, alive := ps.alive(want.Link)
	if !alive {
		return fmt.Errorf("nothing carries packets on %s: %w", want.Link, unix.ENODEV)
	}
	table := r.Table()
	_, there := table.Peer(want.Subnet)
	switch {
	case verb == dataplane.Delete && !there:
		return unix.ENOENT
	case verb == dataplane.Delete:
		r.SetTable(table.Without(want.Subnet))
		return nil
	case verb == dataplane.Create && there:
		return unix.EEXIST
	}
	table, err := table.With(udppath.Peer{Subnet: want.Subnet, PublicIP: want.To})
	if err == nil {
		r.SetTable(table)
	}
	return err
}

// observe adds the packet path of a link. On a new link of the same name
// nothing runs: the old path has lost its device, even if it does not know yet.
func (ps *proxies) observe(link string, index int, state *dataplane.State) {
	r, alive := ps.alive(link)
	if !alive || r.Index() != index {
		return
	}
	state.AddProxy(r.Proxy)
	if state.Running == nil {
		state.Running = map[string]dataplane.Running{}
	}
	state.Running[link] = r.Running()
	for _, p := range r.Table().Peers() {
		state.AddPeer(dataplane.Peer{PeerKey: dataplane.PeerKey{Link: link, Subnet: p.Subnet}, To: p.PublicIP})
	}
}

// proxy does one op on a packet path. A TUN device has a carrier as long as a
// process has it open. The kernel notices a new carrier in the background, up to
// a second later, and drops packets until then; a question about the link makes
// it notice at once.
func (a *applier) proxy(verb dataplane.Verb, want dataplane.Proxy) error {
	l, err := a.links.named(want.Link)
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	err = a.d.ns.Do(func() error { return a.d.proxies.apply(verb, want, l.index) })
	if err != nil || verb == dataplane.Delete {
		return err
	}
	a.links.forget()
	_, err = a.links.named(want.Link)
	return err
}
