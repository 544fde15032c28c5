package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/config"
)

// Identity returns the part of a config's Backend object on which two nodes of a network with these
// families have to agree: its type and the [Option.Agreed] options that differ from their defaults, as
// JSON in one canonical form, such as {"Type":"vxlan","VNI":7}. It holds no secret,
// so a node may publish it, and a config with this object opens the same way.
func (s Spec) Identity(b config.Backend, f Families) (string, error) {
	members, err := b.Members()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, `{"Type":%q`, s.Type)
	for _, o := range s.Options {
		if !o.agreedIn(f) {
			continue
		}
		value := o.canonical(o.valueIn(members))
		if value != o.canonical(json.RawMessage(o.Default)) {
			fmt.Fprintf(&text, ",%q:%s", o.Name, value)
		}
	}
	text.WriteByte('}')
	return text.String(), nil
}

// Agrees reports whether nodes of a network with these families must agree on the option of that name.
func (s Spec) Agrees(name string, f Families) bool {
	o, known := s.option(name)
	return known && o.agreedIn(f)
}

func (o Option) agreedIn(f Families) bool { return o.Agreed || o.AgreedInBoth && f == Both }

// canonical returns one text for all values with the same meaning.
func (o Option) canonical(value json.RawMessage) string {
	if o.Kind == Whole {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err == nil && n == o.ZeroMeans {
			n = 0
		}
		return strconv.FormatInt(n, 10)
	}
	var word string
	if json.Unmarshal(value, &word) == nil && o.Alike[word] != "" {
		return strconv.Quote(o.Alike[word])
	}
	var text bytes.Buffer
	if err := json.Compact(&text, value); err != nil {
		return string(value)
	}
	return text.String()
}
