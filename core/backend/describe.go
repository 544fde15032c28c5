package backend

import (
	"encoding/json"
	"fmt"

	"github.com/flanneld/flannel/core/config"
)

// Given returns the options of a Backend object that differ from their defaults, such as "VNI 7". The value of one that
// may be a secret is left out.
func (s Spec) Given(b config.Backend) []string {
	var texts []string
	members, _ := b.Members() // Open reports the error
	for _, o := range s.Options {
		switch value := o.canonical(o.valueIn(members)); {
		case o.Ignored || value == o.canonical(json.RawMessage(o.Default)):
			continue
		case o.shown():
			texts = append(texts, o.Name+" "+value)
		default:
			texts = append(texts, o.Name)
		}
	}
	return texts
}

// Changed returns the options that differ between two Backend objects of this type, such as "VNI from 1 to 7". The
// values of one that may be a secret are left out.
func (s Spec) Changed(was, now config.Backend) []string {
	var texts []string
	before, _ := was.Members()
	after, _ := now.Members()
	for _, o := range s.Options {
		from, to := o.canonical(o.valueIn(before)), o.canonical(o.valueIn(after))
		switch {
		case o.Ignored || from == to:
			continue
		case o.shown():
			texts = append(texts, fmt.Sprintf("%s from %s to %s", o.Name, from, to))
		default:
			texts = append(texts, o.Name)
		}
	}
	return texts
}

// shown reports whether the option's values are no secrets: numbers, switches and words of a list. A command may name a
// secret.
func (o Option) shown() bool { return o.Kind == Whole || o.Kind == Switch || o.Choices != nil }
