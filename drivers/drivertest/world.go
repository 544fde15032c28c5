package drivertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// World is one host, which has only a loopback link that is up, and the driver
// under test. Its maker closes it (t.Cleanup).
type World interface {
	Driver() driver.Lane

	// Do performs an action on the host behind the driver's back, as an
	// administrator or another program would. It returns after the action and its
	// immediate effects.
	Do(ctx context.Context, a Action) error
}

// Action is one manipulation of a host. The comment of the verb names the fields
// that are set.
type Action struct {
	Verb   ActionVerb
	Link   string           // of the verbs that act on a link
	Object dataplane.Object // of Add, Append, Learn and Remove
	MTU    int              // of SetMTU
	MAC    dataplane.MAC    // of SetMAC
}

// ActionVerb is the kind of an Action.
type ActionVerb string

// The verbs. A Link to Add has the type [Ethernet]; it is created with the
// given MAC and MTU, with carrier, and set up if the object says so. An Addr is
// added as "ip address add" does, which makes the kernel's connected route. A
// Route carries any protocol. Neigh and FDBEntry become permanent with Add,
// and reachable ones, as the kernel learns them by itself, with Learn.
const (
	Add          ActionVerb = "add"           // Object, whose key must be free
	Append       ActionVerb = "append"        // Object: a Route behind others of its key (IPv6: a further path)
	Learn        ActionVerb = "learn"         // Object: a Neigh or FDBEntry
	Remove       ActionVerb = "del"           // Object
	Up           ActionVerb = "up"            // Link
	Down         ActionVerb = "down"          // Link
	CarrierOn    ActionVerb = "carrier-on"    // Link
	CarrierOff   ActionVerb = "carrier-off"   // Link
	SetMTU       ActionVerb = "mtu"           // Link, MTU
	SetMAC       ActionVerb = "mac"           // Link, MAC
	FlushAddrs   ActionVerb = "flush-addrs"   // Link: all its addresses of global scope
	FlushRoutes  ActionVerb = "flush-routes"  // Link: all routes of the main table through it
	FlushNeighs  ActionVerb = "flush-neighs"  // Link: all its neighbours, permanent or not
	FlushFDB     ActionVerb = "flush-fdb"     // Link: all its "self" FDB entries
	DivertFDB    ActionVerb = "divert-fdb"    // Link: all its "self" FDB entries lead to a next-hop object
	AddBlackhole ActionVerb = "add-blackhole" // Object: a Route of which Dst, Metric and Protocol count
)

// Ethernet is the type of a host's own link, such as its uplink. A driver reads
// it back as the kind that its world makes.
const Ethernet dataplane.LinkKind = "ethernet"

// ParseAction reads one line: a verb, then an object in canonical form or a link
// with its argument, such as "add addr 192.168.64.3/24 dev eth0",
// "down flannel.1" or "mtu eth0 1400".
func ParseAction(line string) (Action, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	a := Action{Verb: ActionVerb(verb)}
	var err error
	words := strings.Fields(rest)
	switch a.Verb {
	case Add, Append, Learn, Remove, AddBlackhole:
		a.Object, err = dataplane.ParseObject(rest)
	case Up, Down, CarrierOn, CarrierOff, FlushAddrs, FlushRoutes, FlushNeighs, FlushFDB, DivertFDB:
		err = wantWords(words, 1)
		if err == nil {
			a.Link = words[0]
		}
	case SetMTU:
		err = wantWords(words, 2)
		if err == nil {
			a.Link = words[0]
			a.MTU, err = strconv.Atoi(words[1])
		}
	case SetMAC:
		err = wantWords(words, 2)
		if err == nil {
			a.Link = words[0]
			a.MAC, err = dataplane.ParseMAC(words[1])
		}
	default:
		err = errors.New("unknown verb")
	}
	if err != nil {
		return Action{}, fmt.Errorf("action %q: %w", line, err)
	}
	return a, nil
}

func wantWords(words []string, n int) error {
	if len(words) != n {
		return fmt.Errorf("want %d words after the verb, have %d", n, len(words))
	}
	return nil
}
