package linearizable

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// Input is a request, or a look at the truth if Request is nil. No two requests
// write the same value in Attrs.PublicIP.
type Input struct {
	Request *node.Request
	Key     lease.Key
	Called  time.Duration // since the history began
	// ByRecord is the same as in the history.
	ByRecord bool
}

// Output is the answer.
type Output struct {
	Unknown  bool
	Err      error // nil, lease.ErrConflict or lease.ErrLost
	Revision int64 // of a conflict
	// Elsewhere means that the conflict of a move is at the other key.
	Elsewhere bool
	Lease     *lease.Lease // of a success or a look; nil: no record
	Returned  time.Duration
}

// state is one key of the store.
type state struct {
	there bool
	value netip.Addr
	// since is the earliest time at which the record can have existed, if the
	// request that created it does not show that.
	since time.Duration
	// Revisions and handle are 0 until an answer has shown them.
	create, mod, id int64
	// ends is the time from which the record may end by itself. The model knows
	// that it has ended only once nothing else explains an answer.
	ends time.Duration
	// doomed marks a record whose creator does not know it and revokes it: it may
	// end at any time, even if another client adopts it.
	doomed bool
	newest int64   // the highest revision seen
	dead   []int64 // handles that have run out
}

func (s state) equal(o state) bool {
	return s.there == o.there && s.value == o.value && s.since == o.since && s.create == o.create && s.mod == o.mod &&
		s.id == o.id &&
		s.ends == o.ends && s.doomed == o.doomed && s.newest == o.newest && slices.Equal(s.dead, o.dead)
}

// Model is a lease store that does one thing at a time, for porcupine.
func Model() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return state{} },
		Equal:     func(a, b any) bool { return a.(state).equal(b.(state)) },
		Step: func(s, in, out any) (bool, any) {
			next, ok := s.(state).step(in.(Input), out.(Output))
			return ok, next
		},
		DescribeOperation: func(in, out any) string { return describe(in.(Input), out.(Output)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	var keys []lease.Key
	parts := map[lease.Key][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(Input).Key
		if parts[key] == nil {
			keys = append(keys, key)
		}
		parts[key] = append(parts[key], op)
	}
	var out [][]porcupine.Operation
	for _, key := range keys {
		out = append(out, parts[key])
	}
	return out
}

// step reports whether the store can give that answer to this request, and
// returns the state afterwards.
func (s state) step(in Input, out Output) (state, bool) {
	if in.Request == nil {
		return s.look(out)
	}
	if out.Unknown {
		return s.mayDo(in), true
	}
	switch req := *in.Request; req.Verb {
	case node.Create:
		return s.created(req, in, out)
	case node.Renew:
		return s.renewed(req.Grant, in, out)
	case node.Update:
		return s.updated(req, in, out)
	case node.Move:
		if in.Key == req.Grant.Key {
			return s.movedAway(req.Grant, out)
		}
		return s.movedHere(req, in, out)
	case node.Release:
		return s.released(req.Grant), out.Err == nil
	default:
		return s, false
	}
}

// gone returns the store without the record, if it can have ended by a time.
func (s state) gone(by time.Duration) (state, bool) {
	if !s.there {
		return s, true
	}
	return s.ended(), by >= s.earliestEnd()
}

// earliestEnd returns the earliest time at which the record can have ended by itself.
func (s state) earliestEnd() time.Duration {
	if !s.there || s.doomed {
		return s.since
	}
	return s.ends
}

// ended returns the store after the record, if any, has ended by itself.
func (s state) ended() state {
	if s.there && s.id != 0 {
		s.dead = append(slices.Clone(s.dead), s.id)
	}
	return state{newest: s.newest, dead: s.dead}
}

// is reports whether the record belongs to a grant.
func (s state) is(g lease.Grant) bool { return s.there && s.value == g.Attrs.PublicIP }

// told takes revisions and handle from an answer, which must agree with former
// answers.
func (s state) told(l lease.Lease, at time.Duration) (state, bool) {
	agree := func(known *int64, now int64) bool {
		ok := *known == 0 || *known == now
		*known = now
		return ok
	}
	ok := at >= s.since && agree(&s.create, l.CreateRevision) && agree(&s.mod, l.ModRevision) && agree(&s.id, l.ID)
	s.newest = max(s.newest, l.ModRevision)
	return s, ok
}

func (s state) created(req node.Request, in Input, out Output) (state, bool) {
	switch {
	case out.Err == nil:
		s, ok := s.gone(out.Returned)
		fresh := out.Lease.CreateRevision > s.newest && out.Lease.ModRevision == out.Lease.CreateRevision
		next := state{there: true, value: req.Attrs.PublicIP, ends: in.Called + req.TTL, newest: s.newest, dead: s.dead}
		next, told := next.told(*out.Lease, out.Returned)
		return next, ok && fresh && told && !slices.Contains(s.dead, out.Lease.ID)
	case errors.Is(out.Err, lease.ErrConflict):
		return s.conflict(out)
	}
	return s, false
}

// conflict checks the answer that a record exists, last changed at a revision.
func (s state) conflict(out Output) (state, bool) {
	ok := s.there && out.Returned >= s.since && (s.mod == 0 || s.mod == out.Revision)
	s.mod, s.newest = out.Revision, max(s.newest, out.Revision)
	return s, ok
}

// renewed extends the life of a record, or puts one whose handle is doomed on another
// handle.
func (s state) renewed(g lease.Grant, in Input, out Output) (state, bool) {
	if errors.Is(out.Err, lease.ErrConflict) || out.Err == nil && out.Lease.ID != g.ID {
		return s.updated(node.Request{Grant: g, Attrs: g.Attrs, TTL: g.TTL}, in, out)
	}
	ours := s.there && (s.id == g.ID || s.id == 0 && s.is(g))
	switch {
	case out.Err == nil:
		if ours {
			s.id, s.ends = g.ID, max(s.ends, in.Called+g.TTL)
		}
		return s, !slices.Contains(s.dead, g.ID) && !(ours && out.Returned < s.since)
	case !errors.Is(out.Err, lease.ErrLost):
		return s, false
	case ours:
		return s.gone(out.Returned)
	}
	if !in.ByRecord && !slices.Contains(s.dead, g.ID) { // of a record that was released, or of none
		s.dead = append(slices.Clone(s.dead), g.ID)
	}
	return s, true
}

func (s state) updated(req node.Request, in Input, out Output) (state, bool) {
	switch {
	case out.Err == nil:
		ok := s.is(req.Grant) && out.Lease.ModRevision > max(s.newest, s.mod)
		if s.id != 0 && s.id != out.Lease.ID { // the record is on a new handle now
			ok = ok && !slices.Contains(s.dead, out.Lease.ID)
			s.id, s.doomed = 0, false
			s.ends = in.Called + req.TTL
		}
		s.value, s.mod = req.Attrs.PublicIP, 0
		s, told := s.told(*out.Lease, out.Returned)
		return s, ok && told
	case errors.Is(out.Err, lease.ErrConflict):
		s, ok := s.conflict(out)
		return s, ok && out.Revision != req.Grant.ModRevision
	case errors.Is(out.Err, lease.ErrLost):
		return s.gone(out.Returned)
	}
	return s, false
}

// movedAway is a move as seen from the key that the record leaves. Its handle lives
// on under the other key.
func (s state) movedAway(g lease.Grant, out Output) (state, bool) {
	switch {
	case out.Err == nil:
		return state{newest: max(s.newest, out.Lease.ModRevision), dead: s.dead}, s.is(g)
	case out.Elsewhere:
		return s, true
	case errors.Is(out.Err, lease.ErrConflict):
		s, ok := s.conflict(out)
		return s, ok && out.Revision != g.ModRevision
	case errors.Is(out.Err, lease.ErrLost):
		return s.gone(out.Returned)
	}
	return s, false
}

// movedHere is a move as seen from the key that the record gets. The handle may run
// out at any time: only other requests show when it was renewed last.
func (s state) movedHere(req node.Request, in Input, out Output) (state, bool) {
	if out.Elsewhere || errors.Is(out.Err, lease.ErrLost) {
		return s, true
	}
	next, ok := s.created(req, in, out)
	if out.Err == nil {
		next.ends = in.Called
	}
	return next, ok
}

// released deletes the grant's own record and no other. The handle may live
// on without it.
func (s state) released(g lease.Grant) state {
	// A record that was put on another handle has the same value, but another revision.
	if s.is(g) && (s.mod == 0 || s.mod == g.ModRevision) {
		return state{newest: s.newest, dead: s.dead}
	}
	return s
}

// look reads the record.
func (s state) look(out Output) (state, bool) {
	if out.Lease == nil {
		return s.gone(out.Returned)
	}
	next, ok := s.told(*out.Lease, out.Returned)
	return next, ok && s.there && s.value == out.Lease.Attrs.PublicIP
}

// mayDo returns the state after a request of unknown outcome takes effect at some
// moment. A request without effect counts as done after the history.
func (s state) mayDo(in Input) state {
	req := *in.Request
	verb := req.Verb
	if verb == node.Move { // one key loses the record, the other gets it
		verb = node.Create
		if in.Key == req.Grant.Key {
			verb = node.Release
		}
	}
	switch verb {
	case node.Create:
		next := s.ended()
		next.there = true
		next.value = req.Attrs.PublicIP
		next.doomed = true
		next.since = s.earliestEnd()
		return next
	case node.Renew: // may have postponed the end, but no client may rely on that
		if s.is(req.Grant) {
			s.mod, s.id = 0, 0
		}
	case node.Update:
		if s.is(req.Grant) { // perhaps on another handle
			s.value = req.Attrs.PublicIP
			s.mod, s.id = 0, 0
		}
	case node.Release:
		return s.released(req.Grant)
	}
	return s
}

func describe(in Input, out Output) string {
	asked := "look"
	if r := in.Request; r != nil {
		asked = r.Verb.String()
		if r.Verb != node.Create {
			asked += fmt.Sprintf(" of %s id %d", r.Grant.Attrs.PublicIP, r.Grant.ID)
		}
		if r.Attrs.PublicIP.IsValid() {
			asked += " to " + r.Attrs.PublicIP.String()
		}
	}
	answer := "done"
	switch {
	case out.Unknown:
		answer = "unknown"
	case out.Err != nil:
		answer = fmt.Sprintf("%v (revision %d)", out.Err, out.Revision)
	case out.Lease != nil:
		answer = fmt.Sprintf("%s create %d mod %d id %d", out.Lease.Attrs.PublicIP, out.Lease.CreateRevision,
			out.Lease.ModRevision, out.Lease.ID)
	case in.Request == nil:
		answer = "nothing"
	}
	return fmt.Sprintf("%s..%s %s %s: %s", in.Called, out.Returned, in.Key, asked, answer)
}
