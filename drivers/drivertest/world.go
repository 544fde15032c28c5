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

	// Do performs a deed on the host behind the driver's back, as an
	// administrator or another program would. It returns after the deed and its
	// immediate effects.
	Do(ctx context.Context, d Deed) error
}

// Deed is one manipulation of a host. The comment of the verb names the fields
// that are set.
type Deed struct {
	Verb   DeedVerb
	Link   string           // of the verbs that act on a link
	Object dataplane.Object // of Add, Append, Learn and Remove
	MTU    int              // of SetMTU
	MAC    dataplane.MAC    // of SetMAC
}

// DeedVerb is the kind of a Deed.
type DeedVerb string

// The verbs. A Link to Add has the type [Ethernet]; it is created with the
// given MAC and MTU, with carrier, and set up if the object says so. An Addr is
// added as "ip address add" does, which makes the kernel's connected route. A
// Route carries any protocol. Neigh and FDBEntry become permanent with Add,
// and reachable ones, as the kernel learns them by itself, with Learn.
const (
	Add          DeedVerb = "add"           // Object, whose key must be free
	Append       DeedVerb = "append"        // Object: a Route behind others of its key (IPv6: a further path)
	Learn        DeedVerb = "learn"         // Object: a Neigh or FDBEntry
	Remove       DeedVerb = "del"           // Object
	Up           DeedVerb = "up"            // Link
	Down         DeedVerb = "down"          // Link
	CarrierOn    DeedVerb = "carrier-on"    // Link
	CarrierOff   DeedVerb = "carrier-off"   // Link
	SetMTU       DeedVerb = "mtu"           // Link, MTU
	SetMAC       DeedVerb = "mac"           // Link, MAC
	FlushAddrs   DeedVerb = "flush-addrs"   // Link: all its addresses of global scope
	FlushRoutes  DeedVerb = "flush-routes"  // Link: all routes of the main table through it
	FlushNeighs  DeedVerb = "flush-neighs"  // Link: all its neighbours, permanent or not
	FlushFDB     DeedVerb = "flush-fdb"     // Link: all its "self" FDB entries
	AddBlackhole DeedVerb = "add-blackhole" // Object: a Route of which Dst, Metric and Protocol count
)

// Ethernet is the type of a host's own link, such as its uplink. A driver reads
// it back as the kind that its world makes.
const Ethernet dataplane.LinkKind = "ethernet"

// ParseDeed reads one line: a verb, then an object in canonical form or a link
// with its argument, such as "add addr 192.168.64.3/24 dev eth0",
// "down flannel.1" or "mtu eth0 1400".
func ParseDeed(line string) (Deed, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	d := Deed{Verb: DeedVerb(verb)}
	var err error
	words := strings.Fields(rest)
	switch d.Verb {
	case Add, Append, Learn, Remove, AddBlackhole:
		d.Object, err = dataplane.ParseObject(rest)
	case Up, Down, CarrierOn, CarrierOff, FlushAddrs, FlushRoutes, FlushNeighs, FlushFDB:
		err = wantWords(words, 1)
		if err == nil {
			d.Link = words[0]
		}
	case SetMTU:
		err = wantWords(words, 2)
		if err == nil {
			d.Link = words[0]
			d.MTU, err = strconv.Atoi(words[1])
		}
	case SetMAC:
		err = wantWords(words, 2)
		if err == nil {
			d.Link = words[0]
			d.MAC, err = dataplane.ParseMAC(words[1])
		}
	default:
		err = errors.New("unknown verb")
	}
	if err != nil {
		return Deed{}, fmt.Errorf("deed %q: %w", line, err)
	}
	return d, nil
}

func wantWords(words []string, n int) error {
	if len(words) != n {
		return fmt.Errorf("want %d words after the verb, have %d", n, len(words))
	}
	return nil
}
