package dataplane

import (
	"fmt"
)

// LinkKind is the kernel's name for a kind of link (IFLA_INFO_KIND).
type LinkKind string

// Missing returns the reason why a kernel without this kind makes no such link, and the remedy.
func (k LinkKind) Missing() string {
	return fmt.Sprintf("the kernel has no links of type %s; run: modprobe %s", k, k)
}

// Link is a network device. Two links are equal if == says so.
type Link struct {
	Name string
	MTU  int // bytes
	MAC  MAC // zero in a wanted state: whatever the device has
	Up   bool
	// Master is the link that this one is a port of, such as a bridge or a VRF, which takes the packets that
	// come in by it. It is never wanted.
	Master string
	// ProtoDown means that a program keeps the link without a carrier: it sends nothing. It is never wanted.
	ProtoDown bool
	// Was is the name of the link that a Replace renames to Name, "" if it has that name already.
	// Everything on the link stays on it. Only an [Op] has it, and no state.
	Was    string
	Params LinkParams // what is special to the kind of link
}

// LinkParams is the part of a link that is special to its kind: [VXLAN], [TUN],
// [IPIP], [WireGuard], or [OtherLink] for every kind that flannel does not make.
// The types are comparable values, and no type outside this package implements
// the interface.
type LinkParams interface {
	// Kind returns the kernel's name for the kind.
	Kind() LinkKind

	// words adds the words of the canonical form.
	words(l *line)

	// withWord returns the parameters with the value that follows the word, or
	// false if the kind has no such word.
	withWord(word string, f *fields) (LinkParams, bool)

	// become returns an error that names the first parameter that cannot change
	// on a device that exists. The other parameters are of the same kind.
	become(want LinkParams) error
}

// linkKinds holds the zero parameters of each kind that flannel makes. A new kind
// is one file beside this one and a line here.
var linkKinds = [...]LinkParams{VXLAN{}, TUN{}, IPIP{}, WireGuard{}}

// OtherLink stands for the parameters of a link whose kind flannel never makes.
type OtherLink LinkKind

// Kind implements [LinkParams].
func (o OtherLink) Kind() LinkKind { return LinkKind(o) }

func (o OtherLink) words(*line) {}

func (o OtherLink) withWord(string, *fields) (LinkParams, bool) { return o, false }

func (o OtherLink) become(LinkParams) error { return nil }

// NoParams returns the zero parameters of a kind.
func NoParams(kind LinkKind) LinkParams {
	for _, p := range linkKinds {
		if p.Kind() == kind {
			return p
		}
	}
	return OtherLink(kind)
}

// Kind returns the kind of the link, or "" if the link has no parameters.
func (l Link) Kind() LinkKind {
	if l.Params == nil {
		return ""
	}
	return l.Params.Kind()
}

// Become returns an error if no kernel can turn the device into the wanted one:
// then the device must be deleted and created again. The error names what differs.
func (l Link) Become(want Link) error {
	if l.Kind() != want.Kind() {
		return fixed("kind", l.Kind(), want.Kind())
	}
	if l.Params == nil {
		return nil
	}
	return l.Params.become(want.Params)
}

// fixed returns an error if a parameter that cannot change is to change.
func fixed[T comparable](what string, have, want T) error {
	if have == want {
		return nil
	}
	return fmt.Errorf("%s is %v and cannot become %v", what, have, want)
}

// String returns the canonical form, such as
// "link flannel.1 type vxlan mtu 1450 mac c6:d2:32:6f:8f:44 up id 1 dev eth0 local 192.168.64.3 port 8472".
func (l Link) String() string {
	var text line
	text.add(true, "link %s type %s mtu %d", l.Name, l.Kind(), l.MTU)
	text.add(!l.MAC.IsZero(), "mac %s", l.MAC)
	text.add(l.Up, "up")
	text.add(l.Master != "", "master %s", l.Master)
	text.add(l.ProtoDown, "protodown")
	text.add(l.Was != "", "was %s", l.Was)
	if l.Params != nil {
		l.Params.words(&text)
	}
	return text.String()
}

func (Link) kind() *kind { return &linkKind }

func (l Link) mapKey() string { return l.Name }

var linkKind = mapKind("link", parseLink, func(s *State) *map[string]Link { return &s.Links })

func parseLink(f *fields) Object {
	l := Link{Name: f.next(), Params: NoParams(LinkKind(f.after("type")))}
	for len(f.words) > 0 && f.err == nil {
		switch word := f.next(); word {
		case "mtu":
			l.MTU = int(f.number(31))
		case "mac":
			l.MAC = f.mac(f.next())
		case "up":
			l.Up = true
		case "master":
			l.Master = f.next()
		case "protodown":
			l.ProtoDown = true
		case "was":
			l.Was = f.next()
		default:
			l.parseParam(word, f)
		}
	}
	return l
}

func (l *Link) parseParam(word string, f *fields) {
	params, ok := l.Params.withWord(word, f)
	if !ok {
		f.fail("unexpected %q", word)
		return
	}
	l.Params = params
}
