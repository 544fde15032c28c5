package linux

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// observer reads one [driver.Observation]. It reads each table once, for both
// the facts and the state.
type observer struct {
	d      *Driver
	extent dataplane.Extent
	links  *links
	owned  map[int]string // the extent's links that exist, by index
	memory *lookMemory    // of the last look; nil: this one reads everything
	state  *dataplane.State
	facts  driver.HostFacts
}

// Look implements [driver.Lane].
func (d *Driver) Look(ctx context.Context, extent dataplane.Extent) (driver.Observation, error) {
	memory, err := d.recall(extent)
	if err != nil {
		return driver.Observation{}, fmt.Errorf("observe host: %w", err)
	}
	o := &observer{d: d, extent: extent, links: newLinks(d.query, d.wg), owned: map[int]string{}, memory: memory}
	o.state = dataplane.NewState()
	reads := []func() error{
		o.readLinks,
		o.readAddrs,
		o.watchWired,
		o.readOfPeers,
		o.readSysctls,
		o.readProxies,
		o.readPolicies,
		o.readWireGuard,
	}
	for _, read := range reads {
		if err := ctx.Err(); err != nil {
			return driver.Observation{}, err
		}
		if err := read(); err != nil {
			return driver.Observation{}, fmt.Errorf("observe host: %w", err)
		}
	}
	d.peers = o.state.Routes.Len()
	seen := d.sameAsLast(driver.Observation{State: o.state, Facts: o.facts})
	d.remember(o, seen)
	d.hints.saw(seen.State)
	return seen, nil
}

// readOfPeers reads the tables that grow with the number of peers. The routes come first: the
// driver then watches the announcements about all that it reads.
func (o *observer) readOfPeers() error {
	if o.memory.holds(o) && o.readAgain() {
		return nil
	}
	err := o.readRoutes()
	if err != nil {
		return err
	}
	err = o.readNeighs()
	if err != nil {
		return err
	}
	return o.readFDB()
}

// sameAsLast returns the last state again if a look found the same objects, so that
// its reader need not compare them.
func (d *Driver) sameAsLast(seen driver.Observation) driver.Observation {
	if d.last != nil && d.last.Equal(seen.State) {
		seen.State = d.last
	}
	d.last = seen.State
	return seen
}

func (o *observer) readLinks() error {
	all, err := o.links.all()
	if err != nil {
		return err
	}
	off, err := o.forwardingOff()
	if err != nil {
		return err
	}
	for _, l := range all {
		o.facts.Links = append(o.facts.Links, l.fact(off))
	}
	o.findInside(all)
	for _, name := range o.extent.Links {
		l, ok := o.links.byName[name]
		if !ok {
			continue
		}
		if err := o.links.nameOthers(&l); err != nil {
			return err
		}
		o.owned[l.index] = name
		o.state.AddLink(l.Link)
	}
	return nil
}

// forwardingOff returns for each family whether the setting for the host forbids
// the forwarding of packets.
func (o *observer) forwardingOff() (off [2]bool, err error) {
	return off, o.d.ns.Do(func() error {
		for _, family := range cidr.Families {
			value, exists, err := readSysctl(dataplane.Forwarding(family).Path)
			if err != nil {
				return fmt.Errorf("%s forwarding: %w", family, err)
			}
			off[family] = exists && value == "0"
		}
		return nil
	})
}

// eachOwned calls read for the extent's links, in the extent's order.
func (o *observer) eachOwned(read func(index int, name string) error) error {
	for _, name := range o.extent.Links {
		l, ok := o.links.byName[name]
		if !ok {
			continue
		}
		if err := read(l.index, name); err != nil && !nl.IsGone(err) {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
}

func (o *observer) readAddrs() error {
	at := make(map[string]*driver.Link, len(o.facts.Links))
	for i := range o.facts.Links {
		at[o.facts.Links[i].Name] = &o.facts.Links[i]
	}
	for _, family := range cidr.Families {
		b, err := dumpAddrs(o.d.bulk, family)
		if err != nil {
			return err
		}
		for body := range nl.Answers(b, unix.RTM_NEWADDR, nl.AF(family)) {
			a, ok := parseAddr(body)
			if !ok {
				continue
			}
			if l := at[o.links.byIndex[a.index]]; l != nil {
				l.Addrs = append(l.Addrs, a.fact())
				veth := o.links.byName[l.Name].Kind() == vethKind
				l.Inside = l.Inside && (!veth || a.ofContainer())
			}
			if name, owned := o.owned[a.index]; owned && a.permanentGlobal() {
				o.state.AddAddr(dataplane.Addr{Link: name, Prefix: a.prefix})
			}
		}
	}
	return nil
}

func (o *observer) readNeighs() error {
	return o.eachOwned(func(index int, name string) error {
		for _, family := range cidr.Families {
			b, err := dumpNeighs(o.d.bulk, family, index)
			if err != nil {
				return err
			}
			for body := range nl.Answers(b, unix.RTM_NEWNEIGH, nl.AF(family)) {
				e, ok := parseEntry(body)
				if !ok || e.index != index {
					continue
				}
				if n, ok := e.neigh(name); ok {
					o.state.AddNeigh(n)
				}
			}
		}
		return nil
	})
}

func (o *observer) readFDB() error {
	return o.eachOwned(func(index int, name string) error {
		b, err := dumpFDB(o.d.bulk, index)
		if err != nil {
			return err
		}
		for body := range nl.Answers(b, unix.RTM_NEWNEIGH, unix.AF_BRIDGE) {
			e, ok := parseEntry(body)
			if !ok || e.index != index {
				continue
			}
			f, ok := e.fdb(name)
			if _, second := o.state.FDB.Get(f.FDBKey); ok && !second {
				o.state.AddFDB(f)
			}
		}
		return nil
	})
}

func (o *observer) inExtent(r *route) bool {
	return r.protocol == dataplane.Protocol || r.leavesBy(o.owned) || o.extent.InNetworks(r.dst)
}

func (o *observer) readSysctls() error {
	if len(o.extent.Sysctls) == 0 {
		return nil
	}
	return o.d.ns.Do(func() error {
		for _, s := range o.extent.Sysctls {
			value, ok, err := readSysctl(s.Path)
			if err != nil {
				return fmt.Errorf("sysctl %s: %w", s.Path, err)
			}
			if ok {
				o.state.AddSysctl(dataplane.Sysctl{Path: s.Path, Value: value, Link: s.Link})
			}
		}
		return nil
	})
}

func (o *observer) readProxies() error {
	return o.eachOwned(func(index int, name string) error {
		o.d.proxies.observe(name, index, o.state)
		return nil
	})
}
