package planted

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// late is a node whose requests, looks or both are held back for a time.
type late struct {
	daemon.Machine
	now     time.Time
	step    func(l *late, in node.Input)
	hold    func(l *late, r *node.Effects) bool // reports whether what the node asks for has to wait
	until   time.Time                           // how long it waits; zero: not known yet
	look    *node.Look
	request *node.Request
}

func (l *late) Step(now time.Time, in node.Input) {
	l.now = now
	if l.step != nil {
		l.step(l, in)
	}
	l.Machine.Step(now, in)
}

func (l *late) Ready() node.Effects {
	r := l.Machine.Ready()
	host := &r.Lanes[node.HostLane]
	if l.look != nil {
		host.Look, l.look = l.look, nil
	}
	if l.request != nil {
		r.Request, l.request = l.request, nil
	}
	if l.hold(l, &r) && (r.Wake.IsZero() || l.until.Before(r.Wake)) {
		r.Wake = l.until
	}
	return r
}

// holdRequest keeps the request back while it is too early for it.
func (l *late) holdRequest(r *node.Effects) bool {
	if r.Request == nil || !l.now.Before(l.until) {
		return false
	}
	l.request, r.Request = r.Request, nil
	return true
}

// holdLook keeps the look at the host back while it is too early for it.
func (l *late) holdLook(r *node.Effects) bool {
	host := &r.Lanes[node.HostLane]
	if host.Look == nil || !l.now.Before(l.until) {
		return false
	}
	l.look, host.Look = host.Look, nil
	return true
}

// slowing backs off to a minute after failed renewals, whatever the TTL.
func slowing(n daemon.Machine) daemon.Machine {
	failed := 0
	return &late{Machine: n, step: func(l *late, in node.Input) {
		if in.Requested == nil {
			return
		}
		if in.Requested.Err == nil {
			failed = 0
			return
		}
		failed++
		l.until = l.now.Add(min(time.Minute, time.Second<<min(failed, 6)))
	}, hold: (*late).holdRequest}
}

// distracted puts the next look back with every hint.
func distracted(n daemon.Machine) daemon.Machine {
	return &late{Machine: n, step: func(l *late, in node.Input) {
		if in.Lanes[node.HostLane].Hint {
			l.until = l.now.Add(time.Second)
		}
	}, hold: (*late).holdLook}
}

// backward waits for a revision that it has seen, though the store went back in time.
func backward(n daemon.Machine) daemon.Machine {
	var seen, now int64
	return &late{Machine: n, step: func(_ *late, in node.Input) {
		if in.View != nil && in.View.Snapshot != nil {
			now = in.View.Snapshot.Revision
			seen = max(seen, now)
		}
	}, hold: func(l *late, r *node.Effects) bool {
		l.until = l.now
		if now < seen {
			l.until = l.now.Add(time.Second)
		}
		return l.holdRequest(r)
	}}
}

// unfenced never says that the lease that it saved has ended.
type unfenced struct{ daemon.Machine }

func (u unfenced) Status() node.Status {
	s := u.Machine.Status()
	s.Fenced = s.Fenced && !s.Stale
	return s
}

func neverFenced(n daemon.Machine) daemon.Machine { return unfenced{n} }

// announce is the part of a subnet file that names the subnets.
func announce(key lease.Key) []byte {
	text := ""
	if p := key.V4; p.IsValid() {
		text += fmt.Sprintf("FLANNEL_SUBNET=%s\n", netip.PrefixFrom(p.Addr().Next(), p.Bits()))
	}
	if p := key.V6; p.IsValid() {
		text += fmt.Sprintf("FLANNEL_IPV6_SUBNET=%s\n", netip.PrefixFrom(p.Addr().Next(), p.Bits()))
	}
	return []byte(text)
}

// hasty writes the subnet file with the first state file, before its host is as it should be.
func hasty(n daemon.Machine) daemon.Machine {
	var granted lease.Key
	added, done := false, false
	return machine{n, func(in node.Input) node.Input {
		if in.Requested != nil && in.Requested.Err == nil {
			granted = in.Requested.Grant.Key
		}
		if in.Wrote != nil && added {
			in.Wrote = &node.Wrote{Errs: in.Wrote.Errs[:len(in.Wrote.Errs)-1]}
			added = false
		}
		return in
	}, func(r node.Effects) node.Effects {
		if len(r.Writes) == 1 && r.Writes[0].File == node.StateFile && granted.IsValid() && !done {
			r.Writes = append(r.Writes, node.Write{File: node.SubnetFile, Data: announce(granted)})
			added, done = true, true
		}
		return r
	}}
}

// resentful counts all foreign writes to its record that there ever were, and
// waits longer with each before it repairs the record.
func resentful(n daemon.Machine) daemon.Machine {
	writes := 0
	return &late{Machine: n, hold: func(l *late, r *node.Effects) bool {
		for _, e := range r.Events {
			if e.Kind == "lease-disputed" {
				l.until = l.now.Add(min(time.Second<<writes, 5*time.Minute))
				writes++
			}
		}
		if r.Request != nil && r.Request.Verb != node.Update {
			return false
		}
		return l.holdRequest(r)
	}}
}

// unhurried looks at its host when something has changed there, and from time to
// time, but not when the store has changed.
func unhurried(n daemon.Machine) daemon.Machine {
	var asked time.Time
	return &late{Machine: n, step: func(l *late, in node.Input) {
		host := in.Lanes[node.HostLane]
		if host.Hint || host.Looked != nil || host.Applied != nil {
			asked = l.now
		}
		l.until = asked.Add(30 * time.Second)
		if l.now.Sub(asked) < time.Second {
			l.until = l.now
		}
	}, hold: (*late).holdLook}
}
