package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Member is a member of a JSON object as the text has it.
type Member struct {
	Name  string
	Value json.RawMessage
}

// IsNull reports whether the value is null, which means the same as absence.
func (m Member) IsNull() bool { return isNull(m.Value) }

// Excerpt returns the value on one line, cut if it is long.
func (m Member) Excerpt() string { return excerpt(m.Value) }

// Members returns the members of the Backend object in order, with duplicates.
func (b Backend) Members() ([]Member, error) {
	if isNull(b.Options) {
		return nil, nil
	}
	members, err := membersOf(b.Options)
	if err != nil {
		return nil, fmt.Errorf("Backend %s: %w", excerpt(b.Options), err)
	}
	return members, nil
}

// WithDefault returns the backend with a member before all others, so that it
// counts unless another has the same name.
func (b Backend) WithDefault(name, value string) Backend {
	rest := strings.TrimSpace(string(b.Options))
	if isNull(b.Options) {
		rest = "{}"
	}
	rest = strings.TrimSpace(strings.TrimPrefix(rest, "{"))
	comma := ","
	if rest == "}" {
		comma = ""
	}
	b.Options = json.RawMessage(fmt.Sprintf("{%q:%s%s%s", name, value, comma, rest))
	return b
}

func membersOf(object []byte) ([]Member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil { // the opening brace
		return nil, err
	}
	var members []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := Member{Name: fmt.Sprint(name)}
		if err := d.Decode(&m.Value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// known are the members of a config.
var known = []string{
	"EnableIPv4", "EnableIPv6", "EnableNFTables",
	"Network", "SubnetLen", "SubnetMin", "SubnetMax",
	"IPv6Network", "IPv6SubnetLen", "IPv6SubnetMin", "IPv6SubnetMax",
	"Backend", "Formerly",
}

// IsMember reports whether a config may have a member of that name, in either case.
func IsMember(name string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// warnings returns a sentence for each member that has no effect: its name is
// unknown, or a later member has the same name.
func warnings(document []byte, b Backend) []string {
	top, _ := membersOf(document) // the caller has parsed it
	options, _ := b.Members()
	list := append(duplicates("", top), duplicates("Backend ", options)...)
	for _, m := range top {
		if !IsMember(m.Name) {
			list = append(list, fmt.Sprintf("member %q is unknown and ignored", m.Name))
		}
	}
	return list
}

// duplicates returns a sentence for each name that several members have.
func duplicates(where string, members []Member) []string {
	var list []string
	count := map[string]int{}
	for _, m := range members {
		name := strings.ToLower(m.Name)
		count[name]++
		if count[name] == 2 {
			list = append(list,
				fmt.Sprintf("%smember %q is given more than once, and only the last value counts", where, m.Name))
		}
	}
	return list
}

// WithMember returns a config document with a member set, in the place of all members of that name, or else at the end.
// A document on several lines stays on several lines. The document is a JSON object.
func WithMember(document []byte, name string, value json.RawMessage) ([]byte, error) {
	members, err := membersOf(document)
	if err != nil {
		return nil, err
	}
	set := Member{Name: name, Value: value}
	var next []Member
	for _, m := range members {
		switch {
		case !strings.EqualFold(m.Name, name):
			next = append(next, m)
		case set.Value != nil:
			next = append(next, set)
			set.Value = nil
		}
	}
	if set.Value != nil {
		next = append(next, set)
	}
	var text bytes.Buffer
	text.WriteByte('{')
	for i, m := range next {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, "%q:%s", m.Name, m.Value)
	}
	text.WriteByte('}')
	var form bytes.Buffer
	if bytes.ContainsRune(bytes.TrimSpace(document), '\n') {
		err = json.Indent(&form, text.Bytes(), "", "  ")
		form.WriteByte('\n')
	} else {
		err = json.Compact(&form, text.Bytes())
	}
	return form.Bytes(), err
}
