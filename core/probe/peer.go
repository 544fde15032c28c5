package probe

import (
	"math/bits"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
)

// The numbers of packets of one kind that have to be lost in a row before the loss
// means something, and the pause after a lost echo.
const (
	echoTries  = 3
	otherTries = 2
	pause      = time.Second
)

// window is the number of small echoes over which loss is counted.
const window = 32

// step is a stage of an examination.
type step uint8

const (
	stepEcho    step = iota // does the peer answer at its address in the subnet
	stepExists              // does a bridge that has never answered do so to the host's own address
	stepInstead             // does its uplink answer in the place of a bridge that may not exist
	stepLarge               // does it answer a packet of the pods' MTU
	stepSize                // which is the largest that it answers
	stepUplink              // does the uplink of a silent peer answer
	stepConnect             // does it answer TCP
)

// peer is a target under examination, and the knowledge about it. Thousands of them are kept
// all the time, so small numbers have small types.
type peer struct {
	target Target
	queue  *queue    // nil: a packet is under way
	due    time.Time // of the next packet
	sent   time.Time // of the last one
	quiet  time.Time // when the first of the echoes that were lost in a row was sent; zero: the last one was answered
	search *search   // nil: no size has been searched yet
	index  int32     // in the queue
	kind   Kind      // of the last packet
	gone   bool      // no longer a target

	step     step
	byUplink bool  // the uplink's answers count in this examination
	tries    uint8 // packets of this step that were lost in a row
	sizeLost bool  // the present examination lost packets of the pods' MTU

	seen
}

// seen is the knowledge about a peer, which outlives a change of its target.
type seen struct {
	address netip.Addr // asked in the last examination
	finding Finding
	since   time.Time // of the finding
	last    Finding   // of the last examination, whose target may have been another
	at      time.Time
	missed  time.Time // when the wait for the last lost echo ended
	heard   time.Time
	rtt     time.Duration
	passes  int32
	lost    uint32 // bit i: the echo before the i last ones was lost
	samples uint8
	answers bool // the address in the subnet has answered once, so it exists
	uplink  bool // the uplink of the silent peer answered
	reached bool // an examination has ended with an answer
}

// asked returns the address whose answers count in this examination.
func (x *peer) asked() netip.Addr {
	if x.byUplink {
		return x.target.Uplink
	}
	return x.target.Addr
}

// inherit keeps the knowledge from before the target changed. The sizes that pass are
// determined again; until then only silence stays a finding.
func (x *peer) inherit(old *peer) {
	x.seen = old.seen
	if x.finding != Unreachable {
		x.finding, x.since = Unknown, time.Time{}
	}
	x.passes = 0
}

// next returns the packet to send in this step.
func (x *peer) next() Request {
	t := &x.target
	r := Request{Kind: Echo, Size: SmallSize}
	switch x.step {
	case stepEcho, stepExists:
		x.byUplink = false
	case stepInstead:
		x.byUplink = true
	case stepLarge:
		r.Kind, r.Size = Large, t.MTU
	case stepSize:
		r.Kind, r.Size = Large, x.search.size
	case stepConnect:
		r.Kind, r.Size = Connect, 0
	}
	r.To = x.asked()
	if x.step == stepUplink {
		r.To, r.Host = t.Uplink, true
	}
	if r.To == t.Addr && x.step != stepExists {
		r.From, r.FromOptional = t.From, t.FromOptional
	}
	x.kind = r.Kind
	return r
}

// answered records the fate of the last packet. It returns true if the examination
// has ended.
func (x *peer) answered(now time.Time, a Answer) (ended bool) {
	x.due = now
	if a.Unable != "" { // the next examination finds out more
		x.begin()
		return true
	}
	if !a.OK {
		x.tries++
	}
	switch x.step {
	case stepEcho, stepInstead:
		x.echoed(now, a)
	case stepExists:
		x.existed(a)
	case stepLarge:
		x.sized(a)
	case stepSize:
		x.searched(a)
	case stepUplink:
		x.uplink = a.OK
		x.to(stepConnect)
	case stepConnect:
		if a.OK || x.tries >= x.triesOfTCP() {
			x.conclude(now, a.OK)
			return true
		}
	}
	return false
}

// begin sets the peer to the first step of the next examination.
func (x *peer) begin() {
	x.step, x.tries = stepEcho, 0
	x.sizeLost = false
}

// to continues with another step.
func (x *peer) to(s step) { x.step, x.tries = s, 0 }

// echoed records the fate of a small echo. The silence of a bridge that may not exist
// means nothing yet.
func (x *peer) echoed(now time.Time, a Answer) {
	switch {
	case a.OK:
		x.answers = x.answers || x.step == stepEcho
		x.sample(false)
		x.rtt = a.RTT
		x.quiet = time.Time{}
		x.to(stepLarge)
		return
	case x.step == stepEcho && x.target.Bridge && !x.answers:
		x.to(stepInstead)
		if x.target.FromOptional {
			x.to(stepExists)
		}
		return
	}
	x.sample(true)
	if x.quiet.IsZero() {
		x.quiet = x.sent
	}
	x.missed = now
	x.due = now.Add(pause)
	if x.tries >= echoTries {
		x.to(stepUplink)
	}
}

// existed records whether the bridge answered the host's own address. If so, it exists, and
// its silence towards the host's bridge counts: the peer's way back to the pods is wrong.
func (x *peer) existed(a Answer) {
	x.answers = a.OK
	if a.OK {
		x.to(stepEcho)
		return
	}
	x.to(stepInstead)
}

// sample counts a small echo.
func (x *peer) sample(lost bool) {
	x.lost <<= 1
	if lost {
		x.lost |= 1
	}
	x.samples = min(x.samples+1, window)
}

// sized records the fate of a packet of the pods' MTU.
func (x *peer) sized(a Answer) {
	switch {
	case a.OK:
		x.passes = int32(x.target.MTU)
		x.to(stepConnect)
	case a.TooBig || x.tries >= otherTries:
		x.sizeLost = true
		x.search = newSearch(cidr.FamilyOf(x.asked()), x.target.MTU, int(x.passes))
		x.to(stepSize)
	}
}

// searched records the fate of a packet of the size that the search asked for.
func (x *peer) searched(a Answer) {
	if !a.OK && !a.TooBig && x.tries < otherTries {
		return
	}
	x.tries = 0
	if x.search.learn(a.OK) {
		x.passes = int32(x.search.passes)
		x.to(stepConnect)
	}
}

// triesOfTCP returns how often to try TCP. One try is enough with a peer that answers
// no echo.
func (x *peer) triesOfTCP() uint8 {
	if !x.quiet.IsZero() {
		return 1
	}
	return otherTries
}

// conclude ends the examination with a finding.
func (x *peer) conclude(now time.Time, tcp bool) {
	since, finding := now, Well
	switch {
	case !x.quiet.IsZero() && tcp:
		finding = ICMPLost
	case !x.quiet.IsZero():
		since, finding = x.quiet, Unreachable
	case x.sizeLost:
		finding = SizeLost
	case !tcp:
		finding = TCPLost
	}
	if finding != x.finding {
		x.finding, x.since = finding, since
	}
	x.last = finding
	x.reached = x.reached || finding != Unreachable
	x.at, x.address = now, x.asked()
	x.begin()
}

// result returns the knowledge about the peer.
func (x *peer) result() Result {
	address := x.address
	if !address.IsValid() {
		address = x.target.Addr
	}
	return Result{
		Address: address, Finding: x.finding, Since: x.since, At: x.at, RTT: x.rtt,
		Sent: int(x.samples), Lost: bits.OnesCount32(x.lost), MTU: x.target.MTU, Passes: int(x.passes), Heard: x.heard,
		UplinkAnswers: x.finding == Unreachable && x.uplink && x.address != x.target.Uplink,
	}
}
