package linux

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Facts implements [driver.Driver].
func (d *Driver) Facts(ctx context.Context) (driver.Facts, error) {
	if err := ctx.Err(); err != nil {
		return driver.Facts{}, err
	}
	ls := newLinks(d.query)
	facts, err := readLinkFacts(ls)
	if err == nil {
		facts.Routes, err = d.readRouteFacts(ls)
	}
	if err != nil {
		return driver.Facts{}, fmt.Errorf("read facts of host: %w", err)
	}
	return facts, nil
}

func readLinkFacts(ls *links) (driver.Facts, error) {
	all, err := ls.all()
	if err != nil {
		return driver.Facts{}, err
	}
	at := make(map[int]int, len(all)) // position by index
	var facts driver.Facts
	for i, l := range all {
		at[l.index] = i
		facts.Links = append(facts.Links, driver.Link{
			Name: l.Name, Index: l.index, MTU: l.MTU, Up: l.Up, Loopback: l.loopback, MAC: l.MAC,
		})
	}
	for _, family := range cidr.Families {
		b, err := ls.c.dumpAddrs(family, 0)
		if err != nil {
			return driver.Facts{}, err
		}
		for body := range answers(b, unix.RTM_NEWADDR, afOf(family)) {
			a, ok := parseAddr(body)
			if !ok {
				continue
			}
			if i, ok := at[a.index]; ok {
				facts.Links[i].Addrs = append(facts.Links[i].Addrs, a.fact())
			}
		}
	}
	return facts, nil
}

func (a address) fact() driver.LinkAddr {
	ip := a.prefix.Addr()
	return driver.LinkAddr{
		Prefix:     a.prefix,
		LinkLocal:  a.scope == unix.RT_SCOPE_LINK || ip.IsLinkLocalUnicast(),
		Permanent:  a.flags&unix.IFA_F_PERMANENT != 0,
		Temporary:  ip.Is6() && a.flags&unix.IFA_F_TEMPORARY != 0, // the bit means "secondary" for IPv4
		Deprecated: a.flags&unix.IFA_F_DEPRECATED != 0,
	}
}

func (d *Driver) readRouteFacts(ls *links) ([]driver.Route, error) {
	var routes []driver.Route
	for _, family := range cidr.Families {
		b, err := d.bulk.dumpRoutes(family)
		if err != nil {
			return nil, err
		}
		var r route
		for body := range answers(b, unix.RTM_NEWROUTE, afOf(family)) {
			if !parseRoute(body, &r) || r.kind != unix.RTN_UNICAST || r.protocol == dataplane.Protocol {
				continue
			}
			fact, err := r.fact(ls)
			if err != nil {
				return nil, err
			}
			routes = append(routes, fact)
		}
	}
	return routes, nil
}

func (r *route) fact(ls *links) (driver.Route, error) {
	hops := r.hops
	if len(hops) == 0 {
		hops = []hop{r.hop}
	}
	fact := driver.Route{Dst: r.dst, Metric: r.metric, Src: r.src, Hops: make([]driver.Hop, len(hops))}
	for i, h := range hops {
		name, err := ls.nameOf(h.oif)
		if err != nil {
			return driver.Route{}, err
		}
		fact.Hops[i] = driver.Hop{Link: name, Via: h.via}
	}
	return fact, nil
}
