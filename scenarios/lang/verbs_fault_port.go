package lang

import (
	"fmt"
	"strconv"
)

// faultPort performs "fault n2 port 8285 [heal]": another program takes a UDP
// port, until the heal.
func faultPort(s *Session, name string, n Node, a *args, _ string) error {
	text, heal := a.word("port"), a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return fmt.Errorf("fault port %s: want a number from 1 to 65535", text)
	}
	port, what := uint16(number), name+" port "+text
	ports, err := able[PortUser](s, n)
	if err != nil {
		return err
	}
	leave := func() error { return ports.LeavePort(port) }
	if heal {
		return s.lasting(what, false, leave, nil)
	}
	if err := ports.TakePort(port); err != nil { // its present user keeps it
		return err
	}
	s.undo[what] = leave
	return nil
}
