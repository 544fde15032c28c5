package lang

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
)

// args reads a directive's arguments: bare words in order, and key=value pairs
// by key. An argument that the verb does not read is an error.
type args struct {
	words []string
	pairs map[string]string
	errs  []error
}

func newArgs(d *datadriven.TestData) *args {
	a := &args{pairs: map[string]string{}}
	for _, arg := range d.CmdArgs {
		switch len(arg.Vals) {
		case 0:
			a.words = append(a.words, arg.Key)
		case 1:
			a.pairs[arg.Key] = arg.Vals[0]
		default:
			a.fail("argument %s has %d values: want one", arg.Key, len(arg.Vals))
		}
	}
	delete(a.pairs, "only")
	a.flag("may-fail")
	return a
}

func (a *args) fail(format string, v ...any) { a.errs = append(a.errs, fmt.Errorf(format, v...)) }

// word returns the next bare word. The error for a missing word calls it what.
func (a *args) word(what string) string {
	if len(a.words) == 0 {
		a.fail("%s is missing", what)
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// rest returns all bare words that are left.
func (a *args) rest() []string {
	w := a.words
	a.words = nil
	return w
}

// flag reports whether a bare word is among those left.
func (a *args) flag(word string) bool {
	i := slices.Index(a.words, word)
	if i < 0 {
		return false
	}
	a.words = slices.Delete(a.words, i, i+1)
	return true
}

// either reads one of two words, and reports whether it is the first.
func (a *args) either(yes, no string) bool {
	is := a.flag(yes)
	if !is && !a.flag(no) {
		a.fail("want %s or %s", yes, no)
	}
	return is
}

func (a *args) text(key string, to *string) bool {
	v, ok := a.pairs[key]
	if ok {
		*to = v
		delete(a.pairs, key)
	}
	return ok
}

// list reads words with commas between them.
func (a *args) list(key string, to *[]string) {
	var v string
	if a.text(key, &v) {
		*to = strings.Split(v, ",")
	}
}

func (a *args) integer(key string, to *int) {
	var v string
	if !a.text(key, &v) {
		return
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		a.fail("%s=%s: want a number", key, v)
	}
	*to = n
}

// fraction reads a probability.
func (a *args) fraction(key string, to *float64) {
	var v string
	if !a.text(key, &v) {
		return
	}
	p, err := strconv.ParseFloat(v, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		a.fail("%s=%s: want a number from 0 to 1", key, v)
	}
	*to = p
}

func (a *args) duration(key string, to *time.Duration) {
	var v string
	if a.text(key, &v) {
		a.durationOf(key, v, to)
	}
}

// durationOf reads the text of a duration.
func (a *args) durationOf(key, v string, to *time.Duration) {
	d, err := time.ParseDuration(v)
	if err != nil {
		a.fail("%s=%s: want a duration such as 30s", key, v)
	}
	*to = d
}

func (a *args) done() error {
	for _, w := range a.words {
		a.fail("unexpected word %q", w)
	}
	for _, k := range sortedKeys(a.pairs) {
		a.fail("unexpected argument %s=%s", k, a.pairs[k])
	}
	return errors.Join(a.errs...)
}
