package underlay

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node/event"
	"github.com/flanneld/flannel/core/uplink"
)

// Machine is the choice of a node's uplink.
type Machine struct {
	log    *event.Log
	uplink uplink.Uplink // in use, as peers see it
	memory uplink.Memory // that led to it
	key    string        // see [Machine.Key]
	chosen bool          // the choice follows from the last facts
	at     time.Time     // when it may change by itself; zero: never
	// trouble says why no uplink could be chosen at the last look, or why the one in use is not in order; nil: it is.
	trouble error
	// unreachable says why the address of --iface-can-reach cannot be reached, or is empty.
	unreachable string
	down        string // why no packet can leave by the uplink; "": packets can
}

// New returns a machine without an uplink.
func New(log *event.Log) *Machine { return &Machine{log: log} }

// Uplink returns the uplink in use, as peers see it; zero: none.
func (m *Machine) Uplink() uplink.Uplink { return m.uplink }

// Memory returns what a restart has to know.
func (m *Machine) Memory() uplink.Memory { return m.memory }

// Key names what a restart has to know: another key is a reason to save the memory.
func (m *Machine) Key() string { return m.key }

// Trouble returns why there is no uplink, or why the one in use is not in order; nil: it is.
func (m *Machine) Trouble() error { return m.trouble }

// Notes returns what a status says of the uplink in use.
func (m *Machine) Notes() [2]string { return [2]string{m.unreachable, m.down} }

// At returns the moment at which time alone may change the choice; zero: never.
func (m *Machine) At() time.Time { return m.at }

// Due reports whether the choice has to be made again.
func (m *Machine) Due(now time.Time) bool { return !m.chosen || !m.at.IsZero() && !now.Before(m.at) }

// Again makes the next choice due: the config or the addresses of the datastore are others.
func (m *Machine) Again() { m.chosen = false }

// Looked notes a look at the host: other facts, and a choice that failed, make the next choice due.
func (m *Machine) Looked(changed bool) { m.chosen = m.chosen && m.trouble == nil && !changed }

// Choose chooses the uplink. It returns whether that has succeeded, and an error if the process has to end: there is no
// uplink, and no operator can fix the address in the datastore.
func (m *Machine) Choose(f Facts) (chosen bool, fatal error) {
	m.chosen = true
	m.unreachable = f.Options.Unreachable(f.Host.Facts)
	m.log.Once(event.Warning, "cannot-reach", m.unreachable)
	if m.memory.Used.Link == "" {
		m.memory = f.Saved // its key changes with the first decision
	}
	d := uplink.Choose(f.Options, f.Config, f.Host, m.memory, f.Now)
	m.at = d.At
	if d.Used.Link == "" {
		return false, m.fail(f, d.Trouble)
	}
	up := f.asPublished(d.Used)
	if err := f.refusePublished(up); err != nil {
		return false, m.fail(f, err)
	}
	m.report(f, up, d)
	m.memory, m.key = d.Memory, fmt.Sprint(d.Used, d.Left, d.Beside)
	m.uplink, m.trouble = up, d.Trouble
	return true, nil
}

// fail notes and logs that the choice failed. Without an earlier uplink the process ends, unless an operator can fix
// the address in the datastore.
func (m *Machine) fail(f Facts, err error) (fatal error) {
	switch {
	case m.uplink.Link == "" && f.Waits:
		m.log.Once(event.Error, "assignment", err.Error())
	case m.uplink.Link == "":
		fatal = err
	case m.trouble == nil:
		m.log.Add(event.Warning, "uplink-lost", fmt.Sprintf("%v; in use is %s", err, describe(m.uplink)))
	}
	m.trouble = err
	return fatal
}

// report logs what a choice has changed. Up is the new one as peers see it.
func (m *Machine) report(f Facts, up uplink.Uplink, d uplink.Decision) {
	switch {
	case d.Moved != "":
		m.log.Add(event.Warning, "uplink-moved", fmt.Sprintf("moved from %s to %s: %s; to pin a choice, start with %s",
			describe(m.memory.Used), describe(up), d.Moved, pins(m.memory.Used)))
	case m.uplink.Link == "" || d.Trouble == nil && up != m.uplink:
		m.log.Add(event.Info, "uplink", "using "+describe(up)+m.describeBefore(f, up))
	case d.Trouble == nil && m.trouble != nil:
		m.log.Add(event.Info, "uplink-back", "using "+describe(up)+" again")
	}
	if d.Trouble != nil && m.trouble == nil {
		m.log.Add(event.Warning, "uplink-lost", fmt.Sprintf("%v; in use is %s", d.Trouble, describe(up)))
	}
}

// describeBefore names the addresses that the last run published and that this run, which chooses again, does not.
func (m *Machine) describeBefore(f Facts, up uplink.Uplink) (text string) {
	if m.uplink.Link != "" || f.Before == nil {
		return ""
	}
	for _, family := range cidr.Families {
		if was := f.Before.Of(family); was.IsValid() && was != up.Public(family) {
			text += fmt.Sprintf("; the last run published %s", was)
		}
	}
	return text
}

// Watch logs that packets can no longer leave by the uplink, and that they can again. The address stays in use, so this
// keeps no node from being ready: probes find out whether peers answer.
func (m *Machine) Watch(links []driver.Link) {
	text := m.whyDown(links)
	switch {
	case text == m.down:
		return
	case text == "":
		m.log.Add(event.Info, "uplink-up", fmt.Sprintf("packets can leave by the uplink %s again", m.uplink.Link))
	default:
		m.log.Add(event.Warning, "uplink-down", text)
	}
	m.down = text
}

// whyDown names the uplink, or the ports of one that is a bridge, if no packet can leave by it; "": packets can.
func (m *Machine) whyDown(links []driver.Link) string {
	name := m.uplink.Link
	var ports []driver.Link
	for _, l := range links {
		switch {
		case l.Name == name && !l.Up:
			return fmt.Sprintf("the uplink %s is down: no packet leaves by it", name)
		case l.Name == name && l.NoCarrier:
			return fmt.Sprintf("the uplink %s has no carrier: its cable, or the other end of it", name)
		case l.Master == name && !l.Inside:
			ports = append(ports, l)
		}
	}
	works := func(l driver.Link) bool { return l.Up && !l.NoCarrier }
	if name == "" || len(ports) == 0 || slices.ContainsFunc(ports, works) {
		return ""
	}
	return fmt.Sprintf("%s, by which the uplink %s reaches other hosts, is down or has no carrier", ports[0].Name, name)
}

// pins returns the flags that keep a choice.
func pins(u uplink.Uplink) string {
	text := "--iface=" + u.Link
	for _, f := range cidr.Families {
		if a := u.Addr(f); a.IsValid() {
			text += fmt.Sprintf(" or %s=%s", [2]string{cidr.V4: "--public-ip", cidr.V6: "--public-ipv6"}[f], a)
		}
	}
	return text
}

func describe(u uplink.Uplink) string {
	text := fmt.Sprintf("%s (MTU %d", u.Link, u.MTU)
	for _, f := range cidr.Families {
		if u.Addr(f).IsValid() {
			text += fmt.Sprintf(", %s, public %s", u.Addr(f), u.Public(f))
		}
	}
	text += ")"
	if u.PassedOver != "" {
		text += "; passed over: " + u.PassedOver
	}
	return text
}
