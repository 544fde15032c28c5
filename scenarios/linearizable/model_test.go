package linearizable

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// TestModel gives the model short histories of one key. Requests follow each
// other unless said otherwise; the TTL is eight seconds.
func TestModel(t *testing.T) {
	for name, c := range map[string]modelCase{
		"one life": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			g = s.update(g, "10.1.0.2", 6, nil)
			s.renew(g, nil)
			s.release(g)
			s.see(nil)
		}, porcupine.Ok},
		"created twice": {func(s *tale) {
			s.create("10.1.0.1", 5, nil)
			s.create("10.2.0.1", 6, nil)
		}, porcupine.Illegal},
		"created again when the first has run out": {func(s *tale) {
			s.create("10.1.0.1", 5, nil)
			s.now += 8 * time.Second
			s.create("10.2.0.1", 7, nil)
		}, porcupine.Ok},
		"gone too early": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.now += 7 * time.Second
			s.renew(g, nil)
			s.now += 7 * time.Second
			s.see(nil)
		}, porcupine.Illegal},
		"renewed after its end": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.now += 8 * time.Second
			s.renew(g, lease.ErrLost)
			s.renew(g, nil)
		}, porcupine.Illegal},
		"lost elsewhere, and moved back": {func(s *tale) { s.lostElsewhere() }, porcupine.Illegal},
		"lost elsewhere, and moved back, by record": {func(s *tale) {
			s.h.ByRecord = true
			s.lostElsewhere()
		}, porcupine.Ok},
		"lost though it is there, by record": {func(s *tale) {
			s.h.ByRecord = true
			g := s.create("10.1.0.1", 5, nil)
			s.renew(g, lease.ErrLost)
		}, porcupine.Illegal},
		"update after another's": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.update(g, "10.1.0.2", 6, nil)
			s.update(g, "10.1.0.3", 7, nil)
		}, porcupine.Illegal},
		"updated on another handle": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.now += 7 * time.Second
			g.ID = 6
			s.update(g, "10.1.0.2", 6, nil)
			s.now += 7 * time.Second
			s.see(nil)
		}, porcupine.Illegal},
		"a move of unknown outcome": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.move(g, 6, errors.New("no answer"))
			s.see(&g)
			s.see(nil)
		}, porcupine.Ok},
		"conflict with no record": {func(s *tale) {
			s.create("10.1.0.1", 5, &lease.ConflictError{Revision: 4})
		}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// TestModelOfUnknownOutcomes gives the model requests without an answer.
func TestModelOfUnknownOutcomes(t *testing.T) {
	for name, c := range map[string]modelCase{
		"conflict with a request of unknown outcome": {func(s *tale) {
			s.create("10.1.0.1", 4, errors.New("no answer"))
			s.create("10.2.0.1", 5, &lease.ConflictError{Revision: 4})
		}, porcupine.Ok},
		"an update of unknown outcome that is done late": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.update(g, "10.1.0.2", 6, errors.New("no answer"))
			s.see(&g)
			g.Attrs.PublicIP, g.ModRevision = netip.MustParseAddr("10.1.0.2"), 6
			s.see(&g)
		}, porcupine.Ok},
		"and undone": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.update(g, "10.1.0.2", 6, errors.New("no answer"))
			late := g
			late.Attrs.PublicIP, late.ModRevision = netip.MustParseAddr("10.1.0.2"), 6
			s.see(&late)
			s.see(&g)
		}, porcupine.Illegal},
		"a creation of unknown outcome before the former lease can have ended": {func(s *tale) {
			s.create("10.1.0.1", 5, nil)
			s.create("10.2.0.1", 6, errors.New("no answer"))
			s.see(&lease.Grant{Lease: lease.Lease{Attrs: lease.Attrs{PublicIP: netip.MustParseAddr("10.2.0.1")},
				ModRevision: 6}})
		}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// TestModelOfMoves gives the model moves from the key of the history to another.
func TestModelOfMoves(t *testing.T) {
	for name, c := range map[string]modelCase{
		"moved away": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.move(g, 6, nil)
			s.see(nil)
			s.create("10.2.0.1", 7, nil)
		}, porcupine.Ok},
		"moved away and still there": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.move(g, 6, nil)
			s.see(&g)
		}, porcupine.Illegal},
		"moved away by another": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.update(g, "10.1.0.2", 6, nil)
			s.move(g, 7, nil)
		}, porcupine.Illegal},
		"not moved because of the other key": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.takeOther(6)
			s.move(g, 0, &lease.ConflictError{Key: keyOf(1), Revision: 6})
			s.see(&g)
		}, porcupine.Ok},
		"moved onto another's record": {func(s *tale) {
			g := s.create("10.1.0.1", 5, nil)
			s.takeOther(6)
			s.move(g, 7, nil)
		}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) { c.check(t) })
	}
}

// modelCase is a history and the verdict on it.
type modelCase struct {
	play func(*tale)
	want porcupine.CheckResult
}

func (c modelCase) check(t *testing.T) {
	s := &tale{}
	s.h.Now = func() time.Duration { return s.now }
	c.play(s)
	if got, why := s.h.Check(patience); got != c.want {
		t.Errorf("%s, want %s\n%s", got, c.want, why)
	}
}

// tale is a history told by hand, of one key.
type tale struct {
	h   History
	now time.Duration
}

func (s *tale) ask(req node.Request, g lease.Grant, err error) lease.Grant {
	done := s.h.Ask(0, req)
	g.Key = keyOf(0)
	done(g, err)
	return g
}

func (s *tale) create(ip string, revision int64, err error) lease.Grant {
	attrs := lease.Attrs{PublicIP: netip.MustParseAddr(ip)}
	return s.ask(node.Request{Verb: node.Create, Key: keyOf(0), Attrs: attrs, TTL: 8 * time.Second},
		lease.Grant{TTL: 8 * time.Second,
			Lease: lease.Lease{Attrs: attrs, CreateRevision: revision, ModRevision: revision, ID: revision}}, err)
}

func (s *tale) update(g lease.Grant, ip string, revision int64, err error) lease.Grant {
	next := g
	next.Attrs.PublicIP, next.ModRevision = netip.MustParseAddr(ip), revision
	return s.ask(node.Request{Verb: node.Update, Grant: g, Attrs: next.Attrs, TTL: g.TTL}, next, err)
}

// takeOther lets another client create a record under the other key.
func (s *tale) takeOther(revision int64) {
	attrs := lease.Attrs{PublicIP: netip.MustParseAddr("10.9.0.1")}
	done := s.h.Ask(1, node.Request{Verb: node.Create, Key: keyOf(1), Attrs: attrs, TTL: time.Minute})
	done(lease.Grant{Lease: lease.Lease{Key: keyOf(1), Attrs: attrs, CreateRevision: revision, ModRevision: revision,
		ID: revision}}, nil)
}

// move moves the record to another key.
func (s *tale) move(g lease.Grant, revision int64, err error) {
	next := g
	next.CreateRevision, next.ModRevision = revision, revision
	s.ask(node.Request{Verb: node.Move, Grant: g, Key: keyOf(1), Attrs: g.Attrs, TTL: g.TTL}, next, err)
}

// lostElsewhere renews the record in vain while it is under another key.
func (s *tale) lostElsewhere() {
	g := s.create("10.1.0.1", 5, nil)
	s.move(g, 6, nil)
	s.renew(g, lease.ErrLost)
	there, back := g, g
	there.Key = keyOf(1)
	back.CreateRevision, back.ModRevision = 7, 7
	s.ask(node.Request{Verb: node.Move, Grant: there, Key: keyOf(0), Attrs: g.Attrs, TTL: g.TTL}, back, nil)
}

func (s *tale) renew(g lease.Grant, err error) {
	s.ask(node.Request{Verb: node.Renew, Grant: g}, g, err)
}

func (s *tale) release(g lease.Grant) {
	s.ask(node.Request{Verb: node.Release, Grant: g}, lease.Grant{}, nil)
}

// see looks at the record; nil: there is none.
func (s *tale) see(g *lease.Grant) {
	done := s.h.Call(0, Input{Key: keyOf(0)})
	if g == nil {
		done(lease.Grant{}, nil)
		return
	}
	g.Key = keyOf(0)
	done(*g, nil)
}
