package output

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fruits is a result with a cell of each meaning.
type fruits struct {
	Name string   `json:"Name"`
	Like []string `json:"Like"`
}

func (f fruits) Text(p *Page) {
	p.Line(Plain("name: "), Good(f.Name))
	p.Table(Row("FRUIT", "TASTE", "WHY"),
		[]Cell{Plain("apple"), Good("sweet"), Plain("")},
		[]Cell{Plain("lemon"), Bad("sour"), Plain("there is a lot of acid in it, which is good for tea and for fish")},
		[]Cell{Plain(""), Plain(""), Command("# squeeze --with=both hands")},
	)
	p.Sentencef("A basket has room for one more pear.")
}

func TestPrint(t *testing.T) {
	for _, c := range []struct {
		name    string
		printer Printer
		want    string
	}{
		{"text", Printer{Format: Table}, `name: basket
FRUIT  TASTE  WHY
apple  sweet
lemon  sour   there is a lot of acid in it, which is good for tea and for fish
              # squeeze --with=both hands
A basket has room for one more pear.
`},
		{"narrow", Printer{Format: Table, Width: 40}, `name: basket
FRUIT  TASTE  WHY
apple  sweet
lemon  sour   there is a lot of acid in
              it, which is good for tea
              and for fish
    # squeeze --with=both hands
A basket has room for one more pear.
`},
		{"too narrow to wrap there", Printer{Format: Table, Width: 30}, `name: basket
FRUIT  TASTE  WHY
apple  sweet
lemon  sour
    there is a lot of acid in
    it, which is good for tea
    and for fish
    # squeeze --with=both hands
A basket has room for one more
pear.
`},
		{"colours", Printer{Format: Table, Color: true}, "name: \x1b[32mbasket\x1b[0m\n" +
			"\x1b[1mFRUIT\x1b[0m  \x1b[1mTASTE\x1b[0m  \x1b[1mWHY\x1b[0m\n" +
			"apple  \x1b[32msweet\x1b[0m\n" +
			"lemon  \x1b[31msour\x1b[0m   there is a lot of acid in it, which is good for tea and for fish\n" +
			"              \x1b[1m# squeeze --with=both hands\x1b[0m\nA basket has room for one more pear.\n"},
		{"json", Printer{Format: JSON, Color: true}, "{\n  \"Name\": \"basket\",\n  \"Like\": [\n    \"apple\"\n  ]\n}\n"},
		{"yaml", Printer{Format: YAML}, "Like:\n- apple\nName: basket\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			c.printer.Out = &out
			err := c.printer.Print(fruits{"basket", []string{"apple"}})
			if d := cmp.Diff(c.want, out.String()); d != "" || err != nil {
				t.Errorf("%v, (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	f := Table
	if err := f.Set("yaml"); err != nil || f != YAML {
		t.Errorf("yaml: %v, %v", f, err)
	}
	if err := f.Set("xml"); err == nil || err.Error() != "want one of table, json, yaml" {
		t.Errorf("xml: %v", err)
	}
}

// TestHostileText shows that text from a datastore neither steers the terminal nor
// makes lines of its own.
func TestHostileText(t *testing.T) {
	const hostile = "x\nready\x1b[31m \u202e\u9b31"
	var out bytes.Buffer
	p := Printer{Out: &out}
	err := p.Print(fruits{hostile, nil})
	const want = `name: x\nready\x1b[31m \u202e` + "\u9b31\n"
	if !bytes.HasPrefix(out.Bytes(), []byte(want)) || err != nil {
		t.Errorf("%v, got %q, want %q", err, out.String(), want)
	}
}

// TestSafe shows what a terminal would obey, and keeps the ends of lines.
func TestSafe(t *testing.T) {
	var out bytes.Buffer
	text := "two\nlines\tand \x1b]0;title\a\r, \xff \u009b1m, \u00e4\n"
	n, err := Safe{&out}.Write([]byte(text))
	if n != len(text) || err != nil {
		t.Errorf("wrote %d of %d bytes, %v", n, len(text), err)
	}
	want := "two\nlines\tand \\x1b]0;title\\a\\r, \\ufffd \\u009b1m, \u00e4\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// stored is a document of the datastore.
type stored string

func (s stored) Text(p *Page)                 { p.Document([]byte(s)) }
func (s stored) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// TestHostileDocument shows a document to a terminal, and writes it to a file as it is. As JSON it has JSON's escapes
// in both.
func TestHostileDocument(t *testing.T) {
	const hostile = "{\n\t\"a\": \"\u009b2J\u202e\x7f\"\n}"
	const shown = "{\n\t\"a\": \"\\u009b2J\\u202e\\x7f\"\n}\n"
	const asJSON = "{\n  \"a\": \"\\u009b2J\\u202e\\u007f\"\n}\n"
	for _, c := range []struct {
		printer Printer
		text    stored
		want    string
	}{
		{Printer{Terminal: true}, hostile, shown},
		{Printer{Terminal: true}, "\x1b]0;title\a\x1b[2Jready\r", "\\x1b]0;title\\a\\x1b[2Jready\\r\n"},
		{Printer{}, hostile, hostile},
		{Printer{Format: JSON, Terminal: true}, hostile, asJSON},
		{Printer{Format: JSON}, hostile, asJSON},
	} {
		var out bytes.Buffer
		c.printer.Out = &out
		if err := c.printer.Print(c.text); err != nil || out.String() != c.want {
			t.Errorf("%+v: %v, got %q, want %q", c.printer, err, out.String(), c.want)
		}
	}
}

// TestPrintAgain prints several results, which a program has to tell apart.
func TestPrintAgain(t *testing.T) {
	for format, want := range map[Format]string{
		JSON: "{\n  \"Name\": \"a\",\n  \"Like\": null\n}\n{\n  \"Name\": \"b\",\n  \"Like\": null\n}\n",
		YAML: "Like: null\nName: a\n---\nLike: null\nName: b\n",
	} {
		var out bytes.Buffer
		p := Printer{Out: &out, Format: format}
		for _, name := range []string{"a", "b"} {
			if err := p.Print(fruits{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", format, d)
		}
	}
}
