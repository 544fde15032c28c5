package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Format is the form of a command's result. It is the value of the flag
// --output.
type Format string

// The formats.
const (
	Table Format = "table" // text for people
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// formats lists the formats that Set takes.
var formats = []string{string(Table), string(JSON), string(YAML)}

// String returns the name of the format.
func (f *Format) String() string { return string(*f) }

// Type returns the description of the flag's values in a help text.
func (f *Format) Type() string { return strings.Join(formats, "|") }

// Set takes the format by its name.
func (f *Format) Set(name string) error {
	if !slices.Contains(formats, name) {
		return fmt.Errorf("want one of %s", strings.Join(formats, ", "))
	}
	*f = Format(name)
	return nil
}

// Result is the result of a command. Its JSON form is for programs.
type Result interface {
	Text(p *Page) // writes the result for people
}

// Printer prints results in one format.
type Printer struct {
	Out    io.Writer
	Format Format
	Width  int  // columns of the terminal; 0: no limit
	Color  bool // the terminal shows colours
	// Terminal says that a terminal shows the output, which obeys some characters: a program may have put them into
	// the datastore. A file or another program gets documents as they are.
	Terminal bool

	printed bool // a result
}

// Print writes the result.
func (p *Printer) Print(r Result) error {
	var text []byte
	var err error
	switch p.Format {
	case JSON:
		text, err = json.MarshalIndent(r, "", "  ")
		text = append(escaped(text), '\n')
	case YAML:
		text, err = json.Marshal(r)
		if err == nil {
			text, err = yaml.JSONToYAML(escaped(text))
		}
		if p.printed {
			text = append([]byte("---\n"), text...) // begins another document
		}
	default:
		page := &Page{Width: p.Width, Color: p.Color, terminal: p.Terminal}
		r.Text(page)
		text = page.text.Bytes()
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	p.printed = true
	out := p.Out
	if p.Terminal && (p.Format == JSON || p.Format == YAML) { // a page shows these characters already, and has colours
		out = Safe{out}
	}
	_, err = out.Write(text)
	return err
}

// Safe writes messages with text of other hosts in them, such as an error that an API server
// returned. It shows the characters that a terminal would obey, except the ends of lines and tabs.
type Safe struct{ Out io.Writer }

// Write implements [io.Writer].
func (s Safe) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.Out, visibleExcept(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escaped returns JSON in which the control characters and marks of direction that it allows in texts are escaped: a
// terminal would obey them.
func escaped(text []byte) []byte {
	if !bytes.ContainsFunc(text, unseen) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		if unseen(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// unseen reports whether a character is one that only instructs a terminal.
func unseen(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
