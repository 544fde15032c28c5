package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// document holds the members of a config; every member is optional.
type document struct {
	EnableIPv4, EnableIPv6, EnableNFTables json.RawMessage

	Network, SubnetLen, SubnetMin, SubnetMax                 json.RawMessage
	IPv6Network, IPv6SubnetLen, IPv6SubnetMin, IPv6SubnetMax json.RawMessage

	Backend, Formerly json.RawMessage
}

// Parse reads a network config. Names of members match in either case, and null
// means the same as absence. An error names the member, its value and the values
// allowed. Each unknown or duplicate member leads to a warning.
func Parse(data []byte) (Network, error) { return parse(data, written.complete) }

// ParseAssigned reads the config of a network whose subnets another program
// assigns. It ignores the members about subnets (interop 2.2), and the ranges
// have no SubnetLen, Min and Max.
func ParseAssigned(data []byte) (Network, error) { return parse(data, written.uncut) }

func parse(data []byte, complete func(written) (Range, error)) (Network, error) {
	doc, err := parseDocument(data)
	if err != nil {
		return Network{}, err
	}
	var n Network
	enabled := [2]bool{cidr.V4: true}
	for _, m := range []struct {
		name string
		raw  json.RawMessage
		into *bool
	}{
		{"EnableIPv4", doc.EnableIPv4, &enabled[cidr.V4]},
		{"EnableIPv6", doc.EnableIPv6, &enabled[cidr.V6]},
		{"EnableNFTables", doc.EnableNFTables, &n.EnableNFTables},
	} {
		if err := decode(m.name, m.raw, m.into, "true or false"); err != nil {
			return Network{}, err
		}
	}
	if enabled == [2]bool{} {
		return Network{}, errors.New("EnableIPv4 and EnableIPv6 are both false: want at least one of them true")
	}
	for _, f := range cidr.Families {
		// A family that is off must still be readable: upstream refuses the config otherwise.
		w, err := doc.rangeOf(f)
		if err != nil {
			return Network{}, err
		}
		if !enabled[f] {
			if w.network.IsValid() {
				n.Off = append(n.Off, w.network.Masked())
			}
			continue
		}
		r, err := complete(w)
		if err != nil {
			return Network{}, err
		}
		*cidr.Pick(f, &n.V4, &n.V6) = r
	}
	n.Backend, err = parseBackend(doc.Backend)
	if err != nil {
		return Network{}, err
	}
	n.Formerly, err = parseFormerly(doc.Formerly)
	if err != nil {
		return Network{}, err
	}
	n.Warnings = warnings(data, n.Backend)
	return n, nil
}

func parseDocument(data []byte) (document, error) {
	var doc *document
	err := json.Unmarshal(data, &doc)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return document{}, fmt.Errorf("malformed JSON at byte %d: %w", syntax.Offset, err)
	case err != nil || doc == nil:
		return document{}, fmt.Errorf(`%s: want a JSON object such as {"Network": "10.5.0.0/16"}`, excerpt(data))
	}
	return *doc, nil
}

// decode reads one member, if it is there.
func decode(name string, raw json.RawMessage, into any, want string) error {
	if isNull(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s %s: want %s", name, excerpt(raw), want)
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// excerpt keeps an error on one line.
func excerpt(raw []byte) string {
	const most = 80
	text := strings.Join(strings.Fields(string(raw)), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// mostFormerly is the largest number of previous backends in a config.
const mostFormerly = 3

// parseFormerly reads the previous backends. An empty list is not the same as none: see [Network.Formerly].
func parseFormerly(raw json.RawMessage) ([]Backend, error) {
	var objects []json.RawMessage
	want := fmt.Sprintf(`an array of at most %d objects such as [{"Type": "vxlan"}]`, mostFormerly)
	if err := decode("Formerly", raw, &objects, want); err != nil {
		return nil, err
	}
	if len(objects) > mostFormerly {
		return nil, fmt.Errorf("member Formerly has %d backends: want %s", len(objects), want)
	}
	if objects == nil {
		return nil, nil
	}
	formerly := make([]Backend, 0, len(objects))
	for i, object := range objects {
		b, err := parseBackend(object)
		if err != nil {
			return nil, fmt.Errorf("member Formerly[%d]: %w", i, err)
		}
		formerly = append(formerly, b)
	}
	return formerly, nil
}

func parseBackend(raw json.RawMessage) (Backend, error) {
	if raw == nil {
		return Backend{}, nil
	}
	b := Backend{Options: raw}
	var object *struct{ Type json.RawMessage }
	if err := json.Unmarshal(raw, &object); err != nil {
		return Backend{}, fmt.Errorf(`Backend %s: want an object such as {"Type": "vxlan"}`, excerpt(raw))
	}
	if object != nil {
		if err := decode("Backend Type", object.Type, &b.Type, `a string such as "vxlan"`); err != nil {
			return Backend{}, err
		}
	}
	if b.Type == "" {
		return Backend{}, fmt.Errorf(`Backend %s: unknown backend "": want a Type, such as {"Type": "vxlan"}`, excerpt(raw))
	}
	b.Type = strings.ToLower(b.Type)
	return b, nil
}
