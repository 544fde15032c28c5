package probe

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Rate is the largest number of probes in a second, whatever the number of peers. With
// more peers than the rate allows in an interval, examinations come less often.
const Rate = 20

// Probes leave in rounds of at most perRound, a roundGap apart. To wake the process costs
// more than to send one probe; and rounds of 4 are not many packets at once.
const (
	perRound = 4
	roundGap = perRound * time.Second / Rate
)

// hurry is the pause between two examinations of a silent peer while no peer answers, and in the time after it has
// fallen silent.
const (
	hurry  = 5 * time.Second
	lately = time.Minute
)

// askNext is the number of peers that are examined at once when one that has answered does not, so that the node learns
// soon whether the others are silent, too.
const askNext = 2

// Grace is how long a new peer is left alone. It may not know this host yet, so that a probe
// of it tells nothing. WireGuard would even suffer: a probe begins a handshake, and if it gets no
// answer, or if the peer's first packet begins one at the same moment, the kernel of neither host
// begins the next one for five seconds, and packets of pods wait as long. After the grace, pods that
// talk to each other have their session.
const Grace = 10 * time.Second

// Prober decides which probe to send when, and keeps the findings.
type Prober struct {
	interval time.Duration
	grace    time.Duration
	rand     *rand.Rand

	// The peers by subnet, and by the two addresses from which they may send: sorted, since
	// maps of thousands of peers take several times the memory.
	peers, byAddr, byUplink []*peer
	// Peers wait in one of two queues: for their next examination, or for the next packet
	// of the present one, which takes precedence.
	waiting, examined queue
	flight            map[uint64]*peer // who has to answer a request
	lastID            uint64
	round             time.Time // the last round of probes
	inRound           int       // probes in it
	gap               time.Duration
	totals            totals
}

// New returns a prober that examines each peer once in an interval, which is more
// than 0.
func New(interval time.Duration, rand *rand.Rand) *Prober {
	return &Prober{
		interval: interval, grace: Grace, gap: roundGap, rand: rand,
		flight: map[uint64]*peer{}, totals: newTotals(),
	}
}

// Watch replaces the targets, and sorts them. The prober keeps its knowledge about those that
// stay. It examines a new one for the first time within an interval after its grace.
func (p *Prober) Watch(now time.Time, targets []Target) {
	slices.SortStableFunc(targets, func(a, b Target) int { return a.Subnet.Compare(b.Subnet) })
	former := p.peers
	p.peers = make([]*peer, 0, len(targets))
	for i, t := range targets {
		if i+1 < len(targets) && targets[i+1].Subnet == t.Subnet {
			continue // of several targets with one subnet, the last one counts
		}
		for len(former) > 0 && former[0].target.Subnet.Compare(t.Subnet) < 0 {
			p.remove(former[0])
			former = former[1:]
		}
		if len(former) == 0 || former[0].target.Subnet != t.Subnet {
			p.add(now.Add(p.grace), t)
			continue
		}
		p.follow(now, former[0], t)
		former = former[1:]
	}
	for _, x := range former {
		p.remove(x)
	}
	p.byAddr = sorted(p.peers, func(t *Target) netip.Addr { return t.Addr })
	p.byUplink = sorted(p.peers, func(t *Target) netip.Addr { return t.Uplink })
}

// follow keeps a peer whose target may have changed.
func (p *Prober) follow(now time.Time, old *peer, t Target) {
	if old.target == t {
		p.peers = append(p.peers, old)
		return
	}
	p.remove(old)
	x := p.add(now, t)
	x.inherit(old)
	p.totals.changed(x, Unknown)
}

// add follows a target. Its first examination is within an interval from then on.
func (p *Prober) add(from time.Time, t Target) *peer {
	x := &peer{target: t, due: from.Add(time.Duration(p.rand.Int64N(int64(p.interval))))}
	p.peers = append(p.peers, x)
	p.waiting.push(x)
	p.totals.by[Unknown]++
	return x
}

// remove forgets a peer. An answer that is still to come is then without effect.
func (p *Prober) remove(x *peer) {
	x.gone = true
	p.waiting.remove(x)
	p.examined.remove(x)
	p.totals.by[x.finding]--
	delete(p.totals.bad, x)
}

// Due returns the probe to send now, if there is one. It never returns more than Rate
// probes in a second.
func (p *Prober) Due(now time.Time) (Request, bool) {
	if now.Before(p.round.Add(p.gap)) && (!now.Equal(p.round) || p.inRound == perRound) {
		return Request{}, false
	}
	x := p.examined.pop(now)
	if x == nil {
		x = p.waiting.pop(now)
	}
	if x == nil {
		p.inRound = perRound // the round ends, and what an answer makes due waits for the next one
		return Request{}, false
	}
	if !now.Equal(p.round) {
		p.round, p.inRound = now, 0
	}
	p.inRound++
	r := x.next()
	p.lastID++
	r.ID = p.lastID
	x.sent = now
	p.flight[r.ID] = x
	p.totals.sent[r.Kind]++
	return r, true
}

// Wake returns the time at which the next probe is due; zero: none is, before an
// answer comes.
func (p *Prober) Wake() time.Time {
	at := p.waiting.first()
	if e := p.examined.first(); !e.IsZero() && (at.IsZero() || e.Before(at)) {
		at = e
	}
	if next := p.round.Add(p.gap); !at.IsZero() && at.Before(next) {
		return next
	}
	return at
}

// Change reports that an examination of a peer ended with another finding than the last one.
type Change struct {
	Subnet netip.Prefix
	Before Finding // of the last examination, also if the target has changed since then
	Result Result
}

// Answered records the fate of a probe. It returns true if that ends an examination
// with another finding than the last one.
func (p *Prober) Answered(now time.Time, a Answer) (Change, bool) {
	x := p.flight[a.ID]
	if x == nil {
		return Change{}, false
	}
	delete(p.flight, a.ID)
	p.totals.unable = a.Unable
	if x.gone {
		return Change{}, false
	}
	p.totals.count(x.kind, a)
	counted, before := x.finding, x.last
	wasQuiet := !x.quiet.IsZero()
	ended := x.answered(now, a)
	if x.reached && !wasQuiet && !x.quiet.IsZero() {
		p.hasten(now)
	}
	if !ended {
		p.examined.push(x)
		return Change{}, false
	}
	p.totals.changed(x, counted)
	x.due = now.Add(p.jitter(p.pause(now, x)))
	p.waiting.push(x)
	if x.last == before {
		return Change{}, false
	}
	return Change{Subnet: x.target.Subnet, Before: before, Result: x.result()}, true
}

// hasten makes the next peers due now, except for new ones: see [Grace].
func (p *Prober) hasten(now time.Time) {
	var next []*peer
	for range min(askNext, len(p.waiting.peers)) {
		x := p.waiting.pop(p.waiting.first())
		if !x.at.IsZero() && x.due.After(now) {
			x.due = now
		}
		next = append(next, x)
	}
	for _, x := range next {
		p.waiting.push(x)
	}
}

// Unable returns why the last probe could not be sent; empty: it was.
func (p *Prober) Unable() string { return p.totals.unable }

// pause returns the time until the next examination of a peer: an interval, or less for a peer that has fallen
// silent lately, or while no peer answers, so that the node learns soon whether that lasts.
func (p *Prober) pause(now time.Time, x *peer) time.Duration {
	soon := now.Sub(x.since) < lately || !p.totals.answered()
	if x.reached && x.finding == Unreachable && soon {
		return min(p.interval, hurry)
	}
	return p.interval
}

// jitter returns about d, ±20 %, so that nodes started together drift apart.
func (p *Prober) jitter(d time.Duration) time.Duration {
	return d*4/5 + time.Duration(p.rand.Int64N(int64(d)*2/5+1))
}

// Heard records which probes of other daemons have arrived, and whether the host
// listens for them. It ignores an address that no target has, since any host may send
// such packets.
func (p *Prober) Heard(heard []Heard, listens bool) {
	p.totals.listens = listens
	for _, h := range heard {
		for _, x := range [...]*peer{
			sender(p.byAddr, h.From, func(t *Target) netip.Addr { return t.Addr }),
			sender(p.byUplink, h.From, func(t *Target) netip.Addr { return t.Uplink }),
		} {
			if x != nil && h.At.After(x.heard) {
				x.heard = h.At
			}
		}
	}
}

// Result returns the present knowledge about a target.
func (p *Prober) Result(subnet netip.Prefix) (Result, bool) {
	x := p.find(subnet)
	if x == nil {
		return Result{}, false
	}
	return x.result(), true
}

// find returns the peer with a subnet, or nil.
func (p *Prober) find(subnet netip.Prefix) *peer {
	i, ok := slices.BinarySearchFunc(p.peers, subnet, func(x *peer, s netip.Prefix) int {
		return x.target.Subnet.Compare(s)
	})
	if !ok {
		return nil
	}
	return p.peers[i]
}

// sorted returns the peers in the order of one of their addresses.
func sorted(peers []*peer, addr func(*Target) netip.Addr) []*peer {
	peers = slices.Clone(peers)
	slices.SortStableFunc(peers, func(a, b *peer) int { return addr(&a.target).Compare(addr(&b.target)) })
	return peers
}

// sender returns the first of the peers, sorted by an address, that has that address, or nil.
func sender(peers []*peer, from netip.Addr, addr func(*Target) netip.Addr) *peer {
	i, ok := slices.BinarySearchFunc(peers, from, func(x *peer, a netip.Addr) int { return addr(&x.target).Compare(a) })
	if !ok {
		return nil
	}
	return peers[i]
}

// queue holds peers by the time at which their next packet is due.
type queue struct{ peers []*peer }

func (q *queue) push(x *peer) {
	x.queue = q
	heap.Push(q, x)
}

// pop takes the first peer that is due, or returns nil.
func (q *queue) pop(now time.Time) *peer {
	if len(q.peers) == 0 || q.peers[0].due.After(now) {
		return nil
	}
	x := heap.Pop(q).(*peer)
	x.queue = nil
	return x
}

func (q *queue) remove(x *peer) {
	if x.queue == q {
		heap.Remove(q, int(x.index))
		x.queue = nil
	}
}

// first returns the time of the first peer; zero: there is none.
func (q *queue) first() time.Time {
	if len(q.peers) == 0 {
		return time.Time{}
	}
	return q.peers[0].due
}

// Len implements [heap.Interface].
func (q *queue) Len() int { return len(q.peers) }

// Less implements [heap.Interface]. Subnets decide between equal times.
func (q *queue) Less(i, j int) bool {
	a, b := q.peers[i], q.peers[j]
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.target.Subnet.Compare(b.target.Subnet) < 0
}

// Swap implements [heap.Interface].
func (q *queue) Swap(i, j int) {
	q.peers[i], q.peers[j] = q.peers[j], q.peers[i]
	q.peers[i].index, q.peers[j].index = int32(i), int32(j)
}

// Push implements [heap.Interface].
func (q *queue) Push(x any) {
	p := x.(*peer)
	p.index = int32(len(q.peers))
	q.peers = append(q.peers, p)
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(q.peers) - 1
	x := q.peers[last]
	q.peers[last] = nil
	q.peers = q.peers[:last]
	return x
}
