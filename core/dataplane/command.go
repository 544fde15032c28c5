package dataplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Stage says when a [Command] runs. A run in one stage may undo the effects of
// the later stages, so it makes their commands stale.
type Stage string

// The stages, in order.
const (
	PreStartup  Stage = "pre-startup"  // before the node asks for a lease
	PostStartup Stage = "post-startup" // once it holds one
	ForPeer     Stage = "peer"         // for each peer
)

// Stages lists the stages in order.
var Stages = [...]Stage{PreStartup, PostStartup, ForPeer}

// CommandKey identifies a command: its stage, and the subnet of the peer.
type CommandKey struct {
	Stage  Stage
	Subnet netip.Prefix // of a peer, IPv4; zero in the other stages
}

// Command is a command of the operator that has run, and the text that undoes its
// effect. A driver runs the texts with the shell. Peers' data reaches them
// only as Env and Input, never as a part of the text.
//
// Create and Replace run Text. Before that they run Undo of the former command
// under the key, unless that was the same or there is none: see package command.
// Delete runs Undo. A Replace that only changes Undo, Limit or Every runs nothing.
type Command struct {
	CommandKey
	Text  string        // "" runs nothing
	Undo  string        // "" runs nothing
	Env   string        // NAME=value, separated by blanks, beside the daemon's environment
	Input string        // for standard input
	Limit time.Duration // of each run
	Every time.Duration // run again this long after the last run; 0: never
	Round uint64        // counts the runs that Every asked for
	On    string        // the node's own interface and address: with others the command runs again

	Outcome Outcome // Done in a desired state
	Output  string  // of the last run; never desired
}

// Outcome is the result of a command's last run.
type Outcome string

// The outcomes.
const (
	Done   Outcome = ""
	Failed Outcome = "failed" // or interrupted: nothing tells how far it came
	Stale  Outcome = "stale"  // it was done, and its effect may be gone
	Undone Outcome = "undone" // its Undo began, and has not succeeded
	Left   Outcome = "left"   // no longer desired: its Undo failed, and the effect may remain; only in the file
)

// Compare orders keys by stage, then by subnet.
func (k CommandKey) Compare(o CommandKey) int {
	return cmp.Or(cmp.Compare(k.Stage.rank(), o.Stage.rank()), comparePrefixes(k.Subnet, o.Subnet))
}

// Before reports whether a stage is earlier than another one.
func (s Stage) Before(o Stage) bool { return s.rank() < o.rank() }

func (s Stage) rank() int {
	for i, stage := range Stages {
		if s == stage {
			return i
		}
	}
	return len(Stages)
}

// String returns the stage, and the subnet if there is one.
func (k CommandKey) String() string {
	if !k.Subnet.IsValid() {
		return string(k.Stage)
	}
	return fmt.Sprintf("%s %s", k.Stage, k.Subnet)
}

// Key returns the key.
func (k CommandKey) Key() CommandKey { return k }

// SameRun reports whether both commands run the same text with the same data.
func (c Command) SameRun(o Command) bool {
	return c.CommandKey == o.CommandKey && c.Text == o.Text && c.Env == o.Env && c.Input == o.Input
}

// InForce reports whether a command that has run is the desired one.
func (c Command) InForce(want Command) bool {
	c.Output = want.Output
	return c == want
}

// Mentions reports whether Text or Undo has the name of a device as a word: not as a part of a longer name.
func (c Command) Mentions(device string) bool {
	between := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r)
	}
	in := func(text string) bool { return slices.Contains(strings.FieldsFunc(text, between), device) }
	return in(c.Text) || in(c.Undo)
}

// hidden replaces a text that only root may read.
const hidden = "(hidden)"

// WithoutTexts returns the command without what may name secrets: its texts, data and output.
func (c Command) WithoutTexts() Command {
	for _, text := range []*string{&c.Text, &c.Undo, &c.Env, &c.Input, &c.Output} {
		if *text != "" {
			*text = hidden
		}
	}
	return c
}

// String returns the canonical form, such as
// `command peer 10.5.3.0/24 run "ip route add $SUBNET via $PUBLIC_IP" env "SUBNET=10.5.3.0/24" limit 30s`.
func (c Command) String() string {
	return textOf(c.params(), "command %s", c.CommandKey)
}

func (Command) kind() *kind { return &commandKind }

var commandKind = tableKind("command", parseCommand, func(s *State) *Table[CommandKey, Command] { return &s.Commands })

// parseCommand reads the words of a command. Blanks count in its texts, so it
// splits the whole text again.
func parseCommand(f *fields) Object {
	f.splitQuoted()
	c := Command{CommandKey: CommandKey{Stage: oneOf(f, f.next(), Stages[:]...)}}
	if c.Stage == ForPeer {
		c.Subnet = f.prefix()
	}
	f.params(c.params())
	return c
}

// params lists the parameters in the order of the canonical form.
func (c *Command) params() []param {
	list := []param{
		quoted("run", &c.Text), quoted("undo", &c.Undo), quoted("env", &c.Env), quoted("input", &c.Input),
		{"limit", c.Limit != 0, c.Limit, func(f *fields) { c.Limit = f.duration() }},
		{"every", c.Every != 0, c.Every, func(f *fields) { c.Every = f.duration() }},
		{"round", c.Round != 0, c.Round, func(f *fields) { c.Round = f.number(64) }},
		quoted("on", &c.On),
	}
	for _, o := range []Outcome{Failed, Stale, Undone, Left} {
		list = append(list, param{string(o), c.Outcome == o, nil, func(*fields) { c.Outcome = o }})
	}
	return append(list, quoted("output", &c.Output))
}

// quoted is the parameter of a text in quotes.
func quoted(word string, text *string) param {
	return param{word, *text != "", strconv.Quote(*text), func(f *fields) { *text = f.next() }}
}

// splitQuoted splits the whole text into words, of which those in quotes may hold blanks.
func (f *fields) splitQuoted() {
	f.words = nil
	for rest := strings.TrimSpace(f.text); rest != "" && f.err == nil; rest = strings.TrimSpace(rest) {
		if rest[0] != '"' {
			word, after, _ := strings.Cut(rest, " ")
			f.words = append(f.words, word)
			rest = after
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			f.fail("a quoted text does not end")
			return
		}
		word, _ := strconv.Unquote(quoted)
		f.words = append(f.words, word)
		rest = rest[len(quoted):]
	}
}

func (f *fields) duration() time.Duration {
	d, err := time.ParseDuration(f.next())
	if err != nil {
		f.fail("%w", err)
	}
	return d
}
