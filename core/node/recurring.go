package node

import (
	"fmt"
	"time"
)

// The first of equal repairs are logged one by one, and the further ones once in a while, until none has come for
// that long.
const (
	recurringEach  = 5
	recurringEvery = time.Minute
)

// recurring are equal repairs in a row, each of which another program undoes, such as a second flanneld with other
// options. A line for each would fill the log, and take the place of all other events that the daemon remembers.
type recurring struct {
	text   string // of the last repair
	times  int
	last   time.Time
	told   time.Time // the last line about them
	silent bool      // the last one has no line
}

// reportRepair logs a repair, unless equal ones have come too often.
func (n *Node) reportRepair(l *lane, text string) {
	r := &l.recurring
	if text != r.text || n.now.Sub(r.last) > recurringEvery {
		*r = recurring{text: text}
	}
	r.times++
	r.last = n.now
	switch {
	case r.times <= recurringEach:
		n.event(Info, l.logs.applied, text)
	case r.times == recurringEach+1 || n.now.Sub(r.told) >= recurringEvery:
		n.event(Warning, "repairs-undone", fmt.Sprintf("%s: for the %dth time; another program, such as a second flanneld "+
			"on this host, undoes this again and again: stop it. Until then a line comes once a minute", text, r.times))
	default:
		r.silent = true
		return
	}
	r.told = n.now
}
