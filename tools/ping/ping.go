// Package ping probes one address now.
package ping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/internal/pause"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/peers"
)

// gap is the time between two echoes.
const gap = 200 * time.Millisecond

// Result is the fate of the probes.
type Result struct {
	Address netip.Addr      `json:"Address"`
	Sent    int             `json:"Sent"` // small echoes
	RTTs    []time.Duration `json:"RTTs"` // of those that were answered, in nanoseconds
	// Examination is the finding about the address, with the size that passes; null: only
	// echoes were sent.
	Examination *probe.Result `json:"Examination"`
}

// Trouble reports whether an echo was lost, or something else is wrong.
func (r Result) Trouble() bool {
	return len(r.RTTs) < r.Sent || r.Examination != nil && r.Examination.Finding != probe.Well
}

// Text writes the fate for people.
func (r Result) Text(p *output.Page) {
	if e := r.Examination; e != nil {
		if e.Finding == probe.Well {
			p.Sentence(output.Good(fmt.Sprintf("%s answers packets of %d bytes, and TCP, in %s", r.Address, e.Passes,
				peers.Milliseconds(e.RTT))))
			return
		}
		p.Sentence(output.Bad(r.Address.String() + " " + e.Text()))
		return
	}
	for _, rtt := range r.RTTs {
		p.Linef("%s answers in %s", r.Address, peers.Milliseconds(rtt))
	}
	lost := r.Sent - len(r.RTTs)
	text := fmt.Sprintf("%s: %s, %d lost", r.Address, output.Number(r.Sent, "probe"), lost)
	if lost > 0 {
		p.Line(output.Bad(text))
		return
	}
	p.Line(output.Good(text))
}

// Target finds what to probe for a name: an IP address that is not a node's stays as it
// is; a subnet, or the address of a node, stands for the node's address in the overlay.
// The status is that of this host's daemon.
func Target(name string, all control.Peers, s node.Status) (probe.Target, error) {
	prefix, err := peers.ParseName(name)
	if err != nil {
		return probe.Target{}, err
	}
	addr := prefix.Addr()
	t := probe.Target{Subnet: prefix, Addr: addr, Uplink: addr, MTU: s.MTU}
	matching, err := peers.Result(all).Matching(prefix)
	if err != nil {
		if prefix.IsSingleIP() {
			return t, nil // no node's: a host outside, or this node has no peers
		}
		return t, err
	}
	for _, p := range matching.Peers {
		for _, w := range p.Ways {
			public := cidr.Pick(cidr.FamilyOf(w.Subnet.Addr()), p.PublicIP, p.PublicIP6)
			if prefix.IsSingleIP() && addr != public {
				continue // a pod, or the device itself
			}
			if prefix.IsSingleIP() || cidr.Contains(w.Subnet, prefix) || cidr.Contains(prefix, w.Subnet) {
				t = probe.Target{Subnet: w.Subnet, Addr: overlay(w), Uplink: public, MTU: s.MTU}
				t.From = source(w, t.Addr, s.Subnet)
				t.FromOptional = t.From.IsValid()
				return t, nil
			}
		}
	}
	return t, nil
}

// overlay returns the address of a node in its subnet.
func overlay(w node.Way) netip.Addr {
	switch {
	case w.Probe != nil && w.Probe.Address.IsValid():
		return w.Probe.Address
	case w.Type == "tunnel" && w.Link != "":
		return w.Subnet.Addr()
	}
	return w.Subnet.Addr().Next()
}

// source returns the address from which packets to a node show whether its way back to the
// pods of this host is right: that of their bridge, or none if a device of flannel leads to
// the node, whose own address the kernel chooses, or if the node's uplink stands in for a bridge.
func source(w node.Way, to netip.Addr, own lease.Key) netip.Addr {
	subnet := own.Of(cidr.FamilyOf(w.Subnet.Addr()))
	if w.Type == "tunnel" || !w.Subnet.Contains(to) || !subnet.IsValid() {
		return netip.Addr{}
	}
	return subnet.Addr().Next()
}

// Echo sends a number of small echoes.
func Echo(ctx context.Context, t probe.Target, count int, send func(probe.Request) probe.Answer) (Result, error) {
	r := Result{Address: t.Addr}
	for ctx.Err() == nil && r.Sent < count {
		if r.Sent > 0 {
			pause.For(ctx, gap)
		}
		a := send(probe.Request{
			Kind: probe.Echo, From: t.From, FromOptional: t.FromOptional, To: t.Addr, Size: probe.SmallSize,
		})
		if a.Unable != "" {
			return r, errors.New(a.Unable)
		}
		r.Sent++
		if a.OK {
			r.RTTs = append(r.RTTs, a.RTT)
		}
	}
	return r, ctx.Err()
}

// Examine finds out whether packets of the size of the pods' MTU, and TCP, pass too, or
// which size does.
func Examine(ctx context.Context, t probe.Target, send func(probe.Request) probe.Answer) (Result, error) {
	if t.MTU == 0 {
		return Result{}, errors.New("the MTU of the pods is not known: no flanneld answers, or it has none yet")
	}
	cancelled := func(r probe.Request) probe.Answer {
		if err := ctx.Err(); err != nil {
			return probe.Answer{Unable: err.Error()}
		}
		return send(r)
	}
	found, unable := probe.Examine(t, cancelled, time.Now, func(d time.Duration) { pause.For(ctx, d) })
	if unable != "" {
		return Result{}, errors.New(unable)
	}
	return Result{Address: t.Addr, Examination: &found}, nil
}
