package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Dump returns one line for each object, sorted by kind and key. Equal states
// give equal text.
func (s *State) Dump() string {
	var b strings.Builder
	for _, k := range kinds {
		var lines []string
		k.each(s, func(o Object) { lines = append(lines, o.String()+"\n") })
		slices.Sort(lines)
		for _, line := range lines {
			b.WriteString(line)
		}
	}
	return b.String()
}

// ParseDump reads what Dump wrote.
func ParseDump(text string) (*State, error) {
	s := NewState()
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		o, err := ParseObject(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		s.Put(o)
	}
	return s, nil
}

// line builds a text of words with blanks between them.
type line struct{ strings.Builder }

// add appends words if they are to be shown.
func (l *line) add(has bool, format string, words ...any) {
	if !has {
		return
	}
	if l.Len() > 0 {
		l.WriteByte(' ')
	}
	fmt.Fprintf(l, format, words...)
}

// param is one of an object's parameters in the canonical form: a word, and the value
// that follows it. A list of them serves the printer and the parser.
type param struct {
	word  string
	shown bool            // the form has the word
	value any             // nil: no value follows
	read  func(f *fields) // reads the value, whose word has been read
}

// textOf returns a text that begins with a few words and ends with parameters.
func textOf(params []param, format string, words ...any) string {
	var l line
	l.add(true, format, words...)
	addParams(&l, params)
	return l.String()
}

// addParams adds the words and values of the parameters that are shown.
func addParams(l *line, params []param) {
	for _, p := range params {
		l.add(p.shown, "%s", p.word)
		l.add(p.shown && p.value != nil, "%v", p.value)
	}
}

// readParam reads the value that follows a word. It returns false if no parameter has
// the word.
func readParam(params []param, word string, f *fields) bool {
	i := slices.IndexFunc(params, func(p param) bool { return p.word == word })
	if i < 0 {
		return false
	}
	params[i].read(f)
	return true
}

// params reads the words that are left. Each has to be a parameter's.
func (f *fields) params(params []param) {
	for len(f.words) > 0 && f.err == nil {
		if word := f.next(); !readParam(params, word, f) {
			f.fail("unexpected %q", word)
		}
	}
}

// ParseOp reads the canonical form of an op.
func ParseOp(line string) (Op, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	for _, v := range []Verb{Create, Replace, Delete} {
		if v.String() != verb {
			continue
		}
		o, err := ParseObject(rest)
		return Op{v, o}, err
	}
	return Op{}, fmt.Errorf("op %q: want add, replace or del", line)
}

// ParseObject reads the canonical form of one object.
func ParseObject(line string) (Object, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	i := slices.IndexFunc(kinds[:], func(k *kind) bool { return k.word == word })
	if i < 0 {
		return nil, fmt.Errorf("object %q: unknown kind %q", line, word)
	}
	f := &fields{text: rest, words: strings.Fields(rest)}
	o := kinds[i].parse(f)
	f.end()
	if f.err != nil {
		return nil, fmt.Errorf("object %q: %w", line, f.err)
	}
	return o, nil
}

// fields reads words in order and keeps the first error.
type fields struct {
	text  string // the whole text, for kinds in which blanks count
	words []string
	err   error
}

// end fails if words are left.
func (f *fields) end() {
	if len(f.words) > 0 {
		f.fail("unexpected %q", f.words[0])
	}
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

func (f *fields) next() string {
	if len(f.words) == 0 {
		f.fail("line ends early")
		return ""
	}
	w := f.words[0]
	f.words = f.words[1:]
	return w
}

// want reads a word that must be the keyword.
func (f *fields) want(keyword string) {
	if w := f.next(); w != keyword {
		f.fail("want %q, have %q", keyword, w)
	}
}

// after reads the word behind a keyword.
func (f *fields) after(keyword string) string {
	f.want(keyword)
	return f.next()
}

func (f *fields) number(bits int) uint64 {
	n, err := strconv.ParseUint(f.next(), 10, bits)
	if err != nil {
		f.fail("%w", err)
	}
	return n
}

func (f *fields) addr(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		f.fail("%w", err)
	}
	return a
}

func (f *fields) addrPort(s string) netip.AddrPort {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		f.fail("%w", err)
	}
	return a
}

func (f *fields) prefix() netip.Prefix {
	p, err := netip.ParsePrefix(f.next())
	if err != nil {
		f.fail("%w", err)
	}
	return p
}

func (f *fields) publicKey() PublicKey {
	k, err := ParsePublicKey(f.next())
	if err != nil {
		f.fail("%w", err)
	}
	return k
}

func (f *fields) secretName() SecretName {
	n := SecretName(f.next())
	if !n.Valid() {
		f.fail("%q is not the name of a secret", n)
	}
	return n
}

func (f *fields) mac(s string) MAC {
	m, err := ParseMAC(s)
	if err != nil {
		f.fail("%w", err)
	}
	return m
}
