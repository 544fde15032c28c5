package lang

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rival is a host on which another program does the same again and again.
type Rival interface {
	// Repeat does something from time to time, from any goroutine, until stop is called.
	Repeat(every time.Duration, do func()) (stop func())
}

// rivalries are the kinds of faults that a rival may repeat: those without an end of their own.
var rivalries = []string{"add", "firewall", "flush", "link", "remove", "sysctl", "unroute"}

// faultRival performs "fault n2 rival KIND … [every=200ms]": another program performs that fault again and
// again, until the heal or "fault n2 rival heal". What it cannot do, such as delete a missing object, does not end it.
func faultRival(s *Session, name string, n Node, a *args, input string) error {
	what := name + " rival"
	kind := a.word("kind of fault")
	if kind == "heal" {
		stop, on := s.undo[what]
		if err := a.done(); err != nil || !on {
			return err
		}
		delete(s.undo, what)
		return stop()
	}
	if !slices.Contains(rivalries, kind) {
		return fmt.Errorf("fault rival %s: want heal or one of %s", kind, strings.Join(rivalries, ", "))
	}
	if _, on := s.undo[what]; on {
		return errors.New("fault rival: the host has one already")
	}
	every := 200 * time.Millisecond
	a.duration("every", &every)
	host, err := able[Rival](s, n)
	if err != nil {
		return err
	}
	again := func() error {
		again := *a
		again.words, again.pairs = slices.Clone(a.words), maps.Clone(a.pairs)
		return breakings()[kind](s, name, n, &again, input)
	}
	if err := again(); err != nil {
		return err
	}
	stop := host.Repeat(every, func() { _ = again() })
	return s.lasting(what, true, func() error { return nil }, func() error { stop(); return nil })
}
