package kernel

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// device holds the behaviour of one kind of link. Each kind is a type in a file
// of its own; [plainDevice] serves the kinds that flannel never makes.
type device interface {
	// params returns the parameters that a driver reads back.
	params() dataplane.LinkParams

	// check returns the kernel's objection to a change, before any is made.
	check(want dataplane.Link) error

	// change sets the parameters that passed check.
	change(want dataplane.LinkParams)

	// mtuLimit returns the largest MTU that the link can have.
	mtuLimit() int

	// mayComeUp returns the kernel's objection to setting the link up.
	mayComeUp() error

	// turned is called after the link was set up or down.
	turned(up bool)

	// parent returns the name of the link with which this one goes away, or "".
	parent() string

	// hasMAC reports whether the link has an Ethernet address.
	hasMAC() bool

	// carryPacket takes a packet for a next hop if it needs no frame, and
	// reports whether it did.
	carryPacket(packet []byte, next netip.Addr, p *Probe) bool

	// carryFrame takes a frame that goes onto no wire, and reports whether it
	// did.
	carryFrame(frame []byte, p *Probe) bool

	// asksNeighbours reports whether the link can ask for an unknown neighbour.
	asksNeighbours() bool
}

// createDevice makes a link. A new kind of link is a file and a line here.
func (s *stack) createDevice(o dataplane.Link) error {
	switch want := o.Params.(type) {
	case dataplane.VXLAN:
		return s.createVXLAN(o, want)
	case dataplane.TUN:
		return s.createTUN(o)
	case dataplane.IPIP:
		return s.createIPIP(o, want)
	}
	return fmt.Errorf("type %q: %w", o.Kind(), driver.ErrUnsupported)
}

// plainDevice is a kind of link by the kernel's name for it (IFLA_INFO_KIND).
type plainDevice dataplane.LinkKind

const (
	loopback plainDevice = "none"
	ethernet plainDevice = "veth"   // on a segment
	bridge   plainDevice = "bridge" // on a segment of its own, with the pods as other members
)

func (d plainDevice) params() dataplane.LinkParams { return dataplane.OtherLink(d) }

func (plainDevice) check(dataplane.Link) error { return nil }

func (plainDevice) change(dataplane.LinkParams) {}

func (plainDevice) mtuLimit() int { return maxMTU }

func (plainDevice) mayComeUp() error { return nil }

func (plainDevice) turned(bool) {}

func (plainDevice) parent() string { return "" }

func (plainDevice) hasMAC() bool { return true }

func (plainDevice) carryPacket([]byte, netip.Addr, *Probe) bool { return false }

func (plainDevice) carryFrame([]byte, *Probe) bool { return false }

func (plainDevice) asksNeighbours() bool { return true }
