package rpcproxy

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

// Fate says how a request ends.
type Fate int

const (
	Done       Fate = iota
	Lost            // never done
	Unanswered      // done, but the client gets no answer
	Late            // done after the client has given up
)

// Chances are the probabilities of the fates of any request. The zero value is
// a proxy without effect.
type Chances struct {
	Request, Answer float64 // that it is lost
	Slow            float64
	SlowBy          time.Duration // at most, each for request and answer
}

// Next sets the fate of a client's next requests, after those already set.
func (p *Proxy) Next(client netip.Addr, fates ...Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fates[client] = append(p.fates[client], fates...)
}

// Left returns the number of fates set by Next that no request has met yet.
func (p *Proxy) Left(client netip.Addr) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.fates[client])
}

// Change changes the chances.
func (p *Proxy) Change(change func(*Chances)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.chance)
}

// draw decides the fate of a client's request, and how long it and its answer
// take.
func (p *Proxy) draw(client netip.Addr) (f Fate, before, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.chance
	if rand.Float64() < c.Slow {
		before, after = upTo(c.SlowBy), upTo(c.SlowBy)
	}
	if set := p.fates[client]; len(set) > 0 {
		p.fates[client] = set[1:]
		return set[0], before, after
	}
	switch {
	case rand.Float64() < c.Request:
		return Lost, before, after
	case rand.Float64() < c.Answer:
		return Unanswered, before, after
	}
	return Done, before, after
}

// upTo draws a duration.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d + 1)
}
