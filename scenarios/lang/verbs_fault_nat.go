package lang

import "errors"

// PortTranslator is a host that a NAT may hide.
type PortTranslator interface {
	// TranslatePort makes others see a UDP port of the host under another number; 0 ends that.
	TranslatePort(inner, outer uint16) error
}

// faultNAT performs "fault n1 nat port=51820 as=40000 [heal]": a NAT in front of the host
// shows its port 51820 to others as 40000, and drops packets to 51820.
func faultNAT(s *Session, name string, n Node, a *args, _ string) error {
	var port, as int
	a.integer("port", &port)
	a.integer("as", &as)
	on := !a.flag("heal")
	host, err := afterArgs[PortTranslator](s, n, a)
	if err != nil {
		return err
	}
	if on != (port > 0 && port < 1<<16 && as > 0 && as < 1<<16) {
		return errors.New("fault nat: want port= and as=, numbers from 1 to 65535, or heal")
	}
	return setting(s, name+" nat", uint16(as), func(outer uint16) error { return host.TranslatePort(uint16(port), outer) })
}
