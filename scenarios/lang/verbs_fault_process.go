package lang

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// faultKill performs "fault n2 kill boundary=7": the daemon dies at its seventh
// effect from now on that changes the host, its files or the store.
func faultKill(s *Session, name string, n Node, a *args, _ string) error {
	at := 0
	a.integer("boundary", &at)
	if err := a.done(); err != nil {
		return err
	}
	if at <= 0 {
		return errors.New("fault kill: want boundary=N, from 1 on")
	}
	p, err := able[Process](s, n)
	if err != nil {
		return err
	}
	s.ends(name)
	return setting(s, name+" kill", at, p.KillAt)
}

// faultChurn performs "fault n2 churn every=1s for=1m": pods of the node come and
// go, one at a time.
func faultChurn(s *Session, _ string, n Node, a *args, _ string) error {
	var every, length time.Duration
	a.duration("every", &every)
	a.duration("for", &length)
	host, err := afterArgs[PodChurner](s, n, a)
	if err != nil {
		return err
	}
	host.ChurnPods(every, length)
	return nil
}

// faultSuspend performs "fault n2 suspend for=1h": the machine sleeps, and its
// clock with it, so it does not know for how long. The kernel continues.
func faultSuspend(s *Session, name string, n Node, a *args, _ string) error {
	length := time.Duration(0)
	a.duration("for", &length)
	sleeper, err := afterArgs[Sleeper](s, n, a)
	if err != nil {
		return err
	}
	if length <= 0 {
		return errors.New("fault suspend: want for=DURATION")
	}
	s.halts(name)
	sleeper.Suspend(length)
	return nil
}

// faultClock performs "fault n2 clock ahead=10h|behind=10h|right": it sets the
// node's wall clock from the daemon's next start on. A running daemon measures
// by another clock.
func faultClock(s *Session, name string, n Node, a *args, _ string) error {
	var ahead, behind time.Duration
	a.duration("ahead", &ahead)
	a.duration("behind", &behind)
	right := a.flag("right")
	if err := a.done(); err != nil {
		return err
	}
	if right == (ahead != behind) {
		return errors.New("fault clock: want ahead=DURATION, behind=DURATION or right")
	}
	sleeper, err := able[Sleeper](s, n)
	if err != nil {
		return err
	}
	return setting(s, name+" clock", ahead-behind, func(offset time.Duration) error {
		sleeper.SetClock(offset)
		return nil
	})
}

// faultFile performs "fault n2 file subnet|state WHAT", where WHAT is
//
//	gone, garbage   removes the file; overwrites it with garbage
//	keep, old       takes a copy of the file; puts the copy back
//	tear            crashes the machine at the next write, and half of the text remains
//	full [heal]     fills the disk
func faultFile(s *Session, name string, n Node, a *args, _ string) error {
	which := a.word("file")
	what := a.word("what to do")
	on := !a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	file, known := map[string]node.File{"subnet": node.SubnetFile, "state": node.StateFile}[which]
	if !known {
		return fmt.Errorf("fault file %s: want subnet or state", which)
	}
	files, err := able[FileEditor](s, n)
	if err != nil {
		return err
	}
	if file == node.StateFile && slices.Contains([]string{"gone", "garbage", "old", "tear"}, what) {
		s.stateLost[name] = true
	}
	switch what {
	case "gone":
		return files.SetFile(file, nil)
	case "garbage":
		return files.SetFile(file, []byte("\x00}garbage{ FLANNEL_SUBNET=\n"))
	case "keep":
		data, err := files.File(file)
		s.kept[name+" "+which] = data
		return err
	case "old":
		data, ok := s.kept[name+" "+which]
		if !ok {
			return fmt.Errorf("no %s file of %s was kept", which, name)
		}
		return files.SetFile(file, data)
	case "tear":
		tearer, err := able[WriteTearer](s, n)
		if err != nil {
			return err
		}
		s.ends(name)
		tearer.TearWrite(file, true)
		return s.lasting(name+" tear "+which, true, func() error { return nil },
			func() error { tearer.TearWrite(file, false); return nil })
	case "full":
		return setting(s, name+" full "+which, on, func(on bool) error { return files.FullDisk(file, on) })
	}
	return fmt.Errorf("fault file %s: want gone, garbage, keep, old, tear or full", what)
}

// faultKey performs "fault n2 key gone": an operator removes the file with the
// node's private key of WireGuard, and the daemon draws another.
func faultKey(s *Session, _ string, n Node, a *args, _ string) error {
	what := a.word("what to do")
	if err := a.done(); err != nil {
		return err
	}
	if what != "gone" {
		return fmt.Errorf("fault key %s: want gone", what)
	}
	k, err := able[KeyOwner](s, n)
	if err != nil {
		return err
	}
	return k.LoseKey()
}

// faultTUN performs "fault n2 tun gone [heal]": the daemons that start on the node from now on
// have no /dev/net/tun, as in a container that does not mount it.
func faultTUN(s *Session, name string, n Node, a *args, _ string) error {
	what, heal := a.word("what to do"), a.flag("heal")
	h, err := afterArgs[TUNHider](s, n, a)
	if err != nil {
		return err
	}
	if what != "gone" {
		return fmt.Errorf("fault tun %s: want gone", what)
	}
	return setting(s, name+" tun", !heal, h.HideTUN)
}

// faultSecond performs "fault n2 second start|stop": an operator starts another
// daemon on the same host, with the same files, by mistake.
func faultSecond(s *Session, name string, n Node, a *args, _ string) error {
	on := a.either("start", "stop")
	p, err := afterArgs[Process](s, n, a)
	if err != nil {
		return err
	}
	s.doubled[name] = true
	return setting(s, name+" second", on, p.Second)
}
