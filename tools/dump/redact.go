package dump

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// window is the length of the shortest part of a credential that is removed. A
// shorter credential is removed as a whole.
const window = 8

// shortest is the length of the shortest text that counts as a known credential:
// shorter ones are parts of common words.
const shortest = 4

// Redactor removes credentials from texts.
type Redactor struct{ parts map[string]bool }

// looksSecret matches texts that look like a credential behind its name, and a user in
// a URL. The second group of each is taken out.
var looksSecret = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:password|passwd|psk|token|secret|private[-_ ]?key)["']?\s*[:=]\s*["']?)([^\s"',}]+)()`),
	regexp.MustCompile(`(://)([^\s"']*)(@)`),
	regexp.MustCompile(`(?i)(authorization:\s*\w+\s+)([^\s"']+)()`),
}

// Add adds a known credential, as it is and in the forms that programs print.
func (r *Redactor) Add(credential []byte) {
	credential = bytes.TrimSpace(credential)
	if len(credential) < shortest {
		return
	}
	quoted, _ := json.Marshal(string(credential)) // a string has a JSON form
	raw, err := base64.StdEncoding.DecodeString(string(credential))
	if err != nil || len(raw) < window {
		raw = credential
	}
	for _, form := range []string{
		string(credential), strings.Trim(string(quoted), `"`), hex.EncodeToString(credential), hex.EncodeToString(raw),
		base64.StdEncoding.EncodeToString(credential), base64.StdEncoding.EncodeToString(raw),
	} {
		r.add(form)
	}
}

func (r *Redactor) add(form string) {
	if r.parts == nil {
		r.parts = map[string]bool{}
	}
	if len(form) <= window {
		r.parts[form] = true
		return
	}
	for i := range len(form) - window + 1 {
		r.parts[form[i:i+window]] = true
	}
}

// Text returns a text without credentials. It removes the known ones first: a text that
// looks like a credential may end in the middle of a known one.
func (r *Redactor) Text(text []byte) []byte {
	text = r.withoutKnown(text)
	for _, pattern := range looksSecret {
		text = pattern.ReplaceAll(text, []byte("${1}"+daemonflags.Redacted+"${3}"))
	}
	return text
}

// withoutKnown removes the known credentials and their parts.
func (r *Redactor) withoutKnown(text []byte) []byte {
	var lengths []int
	for part := range r.parts {
		if !slices.Contains(lengths, len(part)) {
			lengths = append(lengths, len(part))
		}
	}
	secret := make([]bool, len(text))
	for i := range text {
		for _, n := range lengths {
			if i+n <= len(text) && r.parts[string(text[i:i+n])] {
				for j := i; j < i+n; j++ {
					secret[j] = true
				}
			}
		}
	}
	var out []byte
	for i, c := range text {
		if !secret[i] {
			out = append(out, c)
		} else if i == 0 || !secret[i-1] {
			out = append(out, daemonflags.Redacted...)
		}
	}
	return out
}

// Config returns a network config with only those values that cannot be credentials:
// those of its own members, and of the backend's options that are numbers, switches
// or choices. It makes the keys in it known.
func (r *Redactor) Config(data []byte) []byte {
	var top map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return []byte(daemonflags.Redacted)
	}
	hidden, _ := json.Marshal(daemonflags.Redacted) // a string has a JSON form
	for name, value := range top {
		if strings.EqualFold(name, "Backend") {
			top[name] = r.backend(value, hidden)
		} else if strings.EqualFold(name, "Formerly") {
			top[name] = r.backends(value, hidden)
		} else if !config.IsMember(name) {
			top[name] = hidden
		}
	}
	out, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return []byte(daemonflags.Redacted)
	}
	return out
}

// backends hides what backend hides, in a list of Backend objects.
func (r *Redactor) backends(value, hidden json.RawMessage) json.RawMessage {
	var objects []json.RawMessage
	if json.Unmarshal(value, &objects) != nil {
		return hidden
	}
	for i, object := range objects {
		objects[i] = r.backend(object, hidden)
	}
	out, err := json.Marshal(objects)
	if err != nil {
		return hidden
	}
	return out
}

func (r *Redactor) backend(value, hidden json.RawMessage) json.RawMessage {
	var options map[string]json.RawMessage
	if json.Unmarshal(value, &options) != nil || options == nil {
		return hidden
	}
	var kind string
	for name, v := range options {
		if strings.EqualFold(name, "Type") {
			_ = json.Unmarshal(v, &kind) // another form is hidden below
		}
	}
	spec, known := all.Find(strings.ToLower(kind))
	for name, v := range options {
		if strings.EqualFold(name, "Type") && known && kind != "" || harmless(spec, name, v) {
			continue
		}
		r.addSecret(spec, name, v)
		options[name] = hidden
	}
	out, err := json.Marshal(options)
	if err != nil {
		return hidden
	}
	return out
}

// harmless reports whether an option has a value that cannot be a credential.
func harmless(spec backend.Spec, name string, value json.RawMessage) bool {
	for _, o := range spec.Options {
		if !strings.EqualFold(o.Name, name) {
			continue
		}
		var text string
		isText := json.Unmarshal(value, &text) == nil
		switch o.Kind {
		case backend.Whole, backend.Switch:
			return !isText && !bytes.ContainsAny(value, `"{[`)
		case backend.Text:
			return isText && slices.Contains(o.Choices, text)
		}
	}
	return false
}

// addSecret makes the value of a secret option known. Other hidden values are hidden in
// the config alone: the words of a command are everywhere.
func (r *Redactor) addSecret(spec backend.Spec, name string, value json.RawMessage) {
	var text string
	for _, o := range spec.Options {
		secret := o.Kind == backend.Key || o.Kind == backend.Passphrase
		if secret && strings.EqualFold(o.Name, name) && json.Unmarshal(value, &text) == nil {
			r.Add([]byte(text))
		}
	}
}
