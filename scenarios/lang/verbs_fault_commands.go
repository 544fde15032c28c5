package lang

import (
	"errors"
	"time"
)

// CommandRunner is a host on which the operator's commands run.
type CommandRunner interface {
	// BreakCommands makes every command fail, as if the programs that it needs were missing.
	BreakCommands(on bool)
	// SlowCommands makes every command take that much longer.
	SlowCommands(by time.Duration)
}

// Rebooter is a host that tells the next daemon whether it has booted since the last one.
type Rebooter interface {
	NoteReboot()
}

// faultCommands performs
//
//	fault n1 commands broken       every command of the operator fails, until the heal
//	fault n1 commands slow=10s     every command takes that much longer, until the heal
func faultCommands(s *Session, name string, n Node, a *args, _ string) error {
	slow := time.Duration(0)
	a.duration("slow", &slow)
	broken := a.flag("broken")
	host, err := afterArgs[CommandRunner](s, n, a)
	if err != nil {
		return err
	}
	if broken == (slow > 0) {
		return errors.New("fault commands: want broken or slow=DURATION")
	}
	return setting(s, name+" commands", true, func(on bool) error {
		host.BreakCommands(on && broken)
		host.SlowCommands(0)
		if on {
			host.SlowCommands(slow)
		}
		return nil
	})
}
