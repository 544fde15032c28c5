package dataplane

import "fmt"

// Verb is what an Op does to its object.
type Verb uint8

// Create fails with ErrExists if the key is taken. Replace puts the object
// there whatever is under the key, in place where the kernel can, so that a
// packet always finds either the old or the new. Delete fails with ErrNotFound
// if the key is free; for a route it deletes only the very route given.
const (
	Create Verb = iota + 1
	Replace
	Delete
)

// String returns the verb as iproute2 would say it.
func (v Verb) String() string {
	switch v {
	case Create:
		return "add"
	case Replace:
		return "replace"
	case Delete:
		return "del"
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// Object is one of Link, Addr, Route, Neigh, FDBEntry, Sysctl, Proxy, Peer, Chain.
type Object interface {
	fmt.Stringer
	object()
}

func (Link) object()     {}
func (Addr) object()     {}
func (Route) object()    {}
func (Neigh) object()    {}
func (FDBEntry) object() {}
func (Sysctl) object()   {}
func (Chain) object()    {}
func (Proxy) object()    {}
func (Peer) object()     {}

// Op is one change to one object. It is a value: a plan can be printed,
// compared, replayed and applied to any driver.
//
// Replace of a Link adjusts an existing device: MTU, MAC, up state, and for
// vxlan the local address, parent and learning. What the kernel cannot
// change (type, VNI, port, GBP) needs Delete and Create.
//
// Replace of a Chain puts the whole chain there, rules, jump and all, in one
// transaction; so are chains that follow one another in a plan, as far as they
// are of one flavour and family. A packet finds all of the old or all of the new.
type Op struct {
	Verb   Verb
	Object Object
}

// String returns the canonical form, such as
// "replace route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink".
func (o Op) String() string { return o.Verb.String() + " " + o.Object.String() }
