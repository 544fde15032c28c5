package dataplane

import "fmt"

// Verb is the action of an Op.
type Verb uint8

// Create fails with ErrExists if the key is taken. Replace puts the object under
// its key whether or not one is there, in place if the kernel can, so that a
// packet always finds either the old or the new one. Delete fails with
// ErrNotFound if the key is free; it deletes a route only if it equals the one given.
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

// Op is one change to one object. It is a value: a plan can be printed,
// compared, replayed and applied to any driver.
//
// Replace of a Link adjusts an existing device: MTU, MAC, up state, and the
// parameters that the kernel can change. The others need Delete and Create;
// see [Link.Become]. If the Link has a former name, Replace first renames that
// device, which takes along everything on it.
//
// Replace of an FDBEntry that is odd and has a next hop changes nothing, and succeeds:
// see [FDBEntry.Odd]. It needs Delete first.
//
// Replace of a Chain writes the whole chain, rules and jump, in one transaction.
// Successive chains of one flavour and family in a plan share a transaction. A
// packet meets either all old rules or all new ones.
type Op struct {
	Verb   Verb
	Object Object
}

// String returns the canonical form, such as
// "replace route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink".
func (o Op) String() string { return o.Verb.String() + " " + o.Object.String() }
