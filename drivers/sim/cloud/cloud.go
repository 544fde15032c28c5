package cloud

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// MainTable is the table of instances whose config names none.
const MainTable = "main"

// key identifies an entry.
type key struct {
	table string
	dst   netip.Prefix
}

// entry is the next hop of an entry: an instance, or something else.
type entry struct {
	target   string
	provided bool
}

// version is a former content of the tables.
type version struct {
	at      time.Time // of the change that ended it
	entries map[key]entry
}

// Faults disturb the provider. The zero value disturbs nothing.
type Faults struct {
	Throttled float64       // probability that a request is refused for being one too many
	Denied    bool          // changes are refused
	Quota     int           // largest number of entries of a table; 0: no limit
	Slow      time.Duration // each request takes that much longer
	Stale     time.Duration // an answer may be that old
}

// Cloud is the network of a cloud provider with its tables and its router. A nil Cloud has
// no tables.
type Cloud struct {
	world   *world.World
	network *kernel.Network
	router  *kernel.Host

	tables  []string // in the order of their creation; the router follows the first
	entries map[key]entry
	history []version                        // former contents, oldest first
	gone    map[string]bool                  // instances that have ended
	routes  map[netip.Prefix]dataplane.Route // of the router
	faults  Faults
}

// New returns the network of the hosts that a router connects. The addresses of the
// network have an entry of the provider's own, which no program can change.
func New(network *kernel.Network, router *kernel.Host, own ...netip.Prefix) *Cloud {
	c := &Cloud{
		world: network.World(), network: network, router: router, entries: map[key]entry{}, gone: map[string]bool{},
		routes: map[netip.Prefix]dataplane.Route{}, tables: []string{MainTable},
	}
	for _, p := range own {
		c.entries[key{MainTable, p}] = entry{target: "local", provided: true}
	}
	return c
}

// UseTables replaces the main table by others with the same entries.
func (c *Cloud) UseTables(tables ...string) {
	entries := map[key]entry{}
	for k, e := range c.entries {
		for _, table := range tables {
			entries[key{table, k.dst}] = e
		}
	}
	c.tables, c.entries = tables, entries
}

// SetFaults replaces the provider's faults.
func (c *Cloud) SetFaults(f Faults) {
	c.faults = f
	c.world.Note("cloud: faults", fmt.Sprintf("%+v", f))
}

// Faults returns the provider's faults.
func (c *Cloud) Faults() Faults { return c.faults }

// Put makes an entry as any program may, in each table, or replaces the one that is there.
func (c *Cloud) Put(dst netip.Prefix, target string) {
	for _, table := range c.tables {
		c.change(key{table, dst}, &entry{target: target})
	}
}

// Remove deletes an entry as any program may, from each table.
func (c *Cloud) Remove(dst netip.Prefix) {
	for _, table := range c.tables {
		c.change(key{table, dst}, nil)
	}
}

// EndInstance ends the instance of a host: its entries lead nowhere. It may be started again.
func (c *Cloud) EndInstance(host string, on bool) {
	c.gone[host] = on
	c.world.Note("cloud: instance", fmt.Sprintf("%s ended: %t", host, on))
	c.Refresh()
}

// State returns the true content of the tables, as the instance of a host has to see it.
func (c *Cloud) State(host string) *dataplane.State {
	if c == nil {
		return dataplane.NewState()
	}
	return c.stateOf(host, c.entries)
}

func (c *Cloud) stateOf(host string, entries map[key]entry) *dataplane.State {
	state := dataplane.NewState()
	for k, e := range entries {
		r := dataplane.CloudRoute{
			CloudRouteKey: dataplane.CloudRouteKey{Dst: k.dst, Table: k.table},
			Target:        e.target, Self: e.target == host, Provided: e.provided,
		}
		if c.gone[e.target] {
			r.Status = dataplane.CloudBroken
		}
		state.AddCloudRoute(r)
	}
	return state
}

// change replaces or deletes an entry, and keeps the former content for stale answers.
func (c *Cloud) change(k key, to *entry) {
	c.history = append(c.history, version{c.world.Now(), maps.Clone(c.entries)})
	if to == nil {
		delete(c.entries, k)
	} else {
		c.entries[k] = *to
	}
	c.world.Note("cloud: table "+k.table, fmt.Sprintf("%s %+v", k.dst, to))
	c.Refresh()
}

// read returns the tables as an answer shows them: as they were a while ago, if answers are stale.
func (c *Cloud) read() map[key]entry {
	at := c.world.Now()
	if c.faults.Stale > 0 {
		at = at.Add(-world.UpTo(c.world.Rand("cloud/stale"), c.faults.Stale))
	}
	entries := c.entries
	for _, v := range slices.Backward(c.history) {
		if !v.at.After(at) {
			break
		}
		entries = v.entries
	}
	return entries
}

// Refresh makes the router follow the first table. Call it when the address of a host has changed.
func (c *Cloud) Refresh() {
	want := map[netip.Prefix]dataplane.Route{}
	for k, e := range c.entries {
		if k.table == c.tables[0] && !e.provided {
			want[k.dst] = c.routeTo(k.dst, e.target)
		}
	}
	for _, dst := range slices.SortedFunc(maps.Keys(c.routes), netip.Prefix.Compare) {
		if want[dst] != c.routes[dst] {
			_ = c.router.Remove(c.routes[dst]) // the kernel may have dropped it
			delete(c.routes, dst)
		}
	}
	for _, dst := range slices.SortedFunc(maps.Keys(want), netip.Prefix.Compare) {
		if _, stands := c.routes[dst]; !stands && c.router.RouteAdd(want[dst]) == nil {
			c.routes[dst] = want[dst]
		}
	}
}

// routeTo returns the router's route to an instance, or a blackhole if there is no way to it.
func (c *Cloud) routeTo(dst netip.Prefix, target string) dataplane.Route {
	r := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: dst}, Protocol: dataplane.ProtocolBoot}
	if h := c.network.Host(target); h != nil && !c.gone[target] {
		for _, l := range c.router.Facts().Links {
			for _, own := range l.Addrs {
				via := addressIn(h, own.Prefix.Masked())
				if via.IsValid() && own.Prefix.Addr().Is4() && !l.Loopback {
					r.Link, r.Via = l.Name, via
					return r
				}
			}
		}
	}
	r.Kind = dataplane.Blackhole
	return r
}

// addressIn returns the address of a host that its provider has given it within a segment: the first one
// that is not a single address, as one that floats between hosts.
func addressIn(h *kernel.Host, segment netip.Prefix) netip.Addr {
	for _, l := range h.Facts().Links {
		for _, a := range l.Addrs {
			if segment.Contains(a.Prefix.Addr()) && !a.Prefix.IsSingleIP() {
				return a.Prefix.Addr()
			}
		}
	}
	return netip.Addr{}
}

// create makes an entry for a host's instance.
func (c *Cloud) create(host string, k key) error {
	if !slices.Contains(c.tables, k.table) {
		return fmt.Errorf("table %s: %w", k.table, driver.ErrNotFound)
	}
	if _, exists := c.entries[k]; exists {
		return driver.ErrExists
	}
	count := 0
	for other := range c.entries {
		if other.table == k.table {
			count++
		}
	}
	if c.faults.Quota > 0 && count >= c.faults.Quota {
		return fmt.Errorf("table %s has %d routes, and %d is the limit: %w", k.table, count, c.faults.Quota, driver.ErrDenied)
	}
	c.change(k, &entry{target: host})
	return nil
}

// remove deletes an entry that has not changed since it was read.
func (c *Cloud) remove(r dataplane.CloudRoute) error {
	k := key{r.Table, r.Dst}
	e, exists := c.entries[k]
	switch {
	case !exists, e.target != r.Target:
		return driver.ErrNotFound
	case e.provided:
		return fmt.Errorf("the provider's own route: %w", driver.ErrDenied)
	}
	c.change(k, nil)
	return nil
}
