package api

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// Header is the name of the header that holds Terms.
const Header = "Flannel-Terms"

// The operations of a PUT.
const (
	Renew  = "renew"
	Update = "update"
	Move   = "move"
)

// Terms are the part of a request, or of its answer, that the old API lacks. Zero
// members are not sent.
type Terms struct {
	Op     string // of a PUT: Renew, Update or Move
	Key    lease.Key
	To     lease.Key     // of a Move
	TTL    time.Duration // in a request the wanted one, in an answer the granted one
	Held   time.Duration // the TTL of the present grant, as its owner knows it
	Create int64         // the record's revisions and TTL handle
	Mod    int64
	ID     int64
	// Revision is the revision of the datastore that showed a conflict.
	Revision int64
	// State is the state that the client of a watch already has.
	State string
}

// Of returns the terms that describe a record.
func Of(l lease.Lease) Terms {
	return Terms{Key: l.Key, Create: l.CreateRevision, Mod: l.ModRevision, ID: l.ID}
}

// Lease returns the record that the terms and the attributes describe.
func (t Terms) Lease(attrs lease.Attrs) lease.Lease {
	return lease.Lease{Key: t.Key, Attrs: attrs, CreateRevision: t.Create, ModRevision: t.Mod, ID: t.ID}
}

// String returns the value of the header. It is never empty.
func (t Terms) String() string {
	v := url.Values{"v": {"1"}}
	text := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	number := func(name string, value int64) {
		if value != 0 {
			v.Set(name, strconv.FormatInt(value, 10))
		}
	}
	subnet := func(name string, key lease.Key) {
		if key.IsValid() {
			v.Set(name, key.String())
		}
	}
	text("op", t.Op)
	text("state", t.State)
	subnet("key", t.Key)
	subnet("to", t.To)
	number("ttl", int64(t.TTL))
	number("held", int64(t.Held))
	number("create", t.Create)
	number("mod", t.Mod)
	number("id", t.ID)
	number("revision", t.Revision)
	return v.Encode()
}

// ParseTerms reads the value of the header. Unknown members are ignored.
func ParseTerms(value string) (Terms, error) {
	v, err := url.ParseQuery(value)
	if err != nil {
		return Terms{}, fmt.Errorf("header %s: %w", Header, err)
	}
	if v.Get("v") != "1" {
		return Terms{}, fmt.Errorf("header %s: version %q is unknown, want 1", Header, v.Get("v"))
	}
	t := Terms{Op: v.Get("op"), State: v.Get("state")}
	for name, into := range map[string]*lease.Key{"key": &t.Key, "to": &t.To} {
		if v.Has(name) {
			*into, err = lease.ParseKey(v.Get(name))
			if err != nil {
				return Terms{}, fmt.Errorf("header %s: %s: %w", Header, name, err)
			}
		}
	}
	for name, into := range map[string]*int64{
		"ttl": (*int64)(&t.TTL), "held": (*int64)(&t.Held), "create": &t.Create, "mod": &t.Mod, "id": &t.ID,
		"revision": &t.Revision,
	} {
		if v.Has(name) {
			*into, err = strconv.ParseInt(v.Get(name), 10, 64)
			if err != nil {
				return Terms{}, fmt.Errorf("header %s: %s: %w", Header, name, err)
			}
		}
	}
	if t.TTL < 0 || t.Held < 0 {
		return Terms{}, fmt.Errorf("header %s: a time is negative", Header)
	}
	return t, nil
}
