package shell

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Router changes the routes of a host, as the program ip does.
type Router interface {
	Route(verb string, dst netip.Prefix, via netip.Addr) error
}

// NotFound is the exit status of a program that does not exist.
const NotFound = 127

// Run runs a text with an environment and standard input. It returns the output,
// trimmed, and the exit status.
func Run(text string, env []string, input string, host Router) (output string, status int) {
	s := &run{env: map[string]string{}, input: input, host: host}
	for _, assignment := range env {
		name, value, _ := strings.Cut(assignment, "=")
		s.env[name] = value
	}
	s.list(text)
	return strings.TrimSpace(s.output.String()), s.status
}

type run struct {
	env    map[string]string
	input  string // not yet read
	host   Router
	output strings.Builder
	status int
	ended  bool
}

// list runs the commands of a text, with their separators between them.
func (s *run) list(text string) {
	skip := false
	for text != "" && !s.ended {
		command, separator, rest := cut(text)
		if words := s.words(command); len(words) > 0 && !skip {
			s.status = s.command(words)
		}
		skip = separator == "&&" && s.status != 0 || separator == "||" && s.status == 0
		text = rest
	}
}

// cut returns the text up to the first separator outside of quotes.
func cut(text string) (command, separator, rest string) {
	quote := byte(0)
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		default:
			for _, sep := range []string{"&&", "||", ";", "\n"} {
				if strings.HasPrefix(text[i:], sep) {
					return text[:i], sep, text[i+len(sep):]
				}
			}
		}
	}
	return text, "", ""
}

// words splits a command at blanks, expands variables and removes quotes. It
// never interprets quotes or variables inside a value.
func (s *run) words(command string) []string {
	var words []string
	var word strings.Builder
	quote, some := byte(0), false
	end := func() {
		if some {
			words = append(words, word.String())
		}
		word.Reset()
		some = false
	}
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			end()
			continue
		case quote == c:
			quote = 0
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote, some = c, true
			continue
		}
		if c != '$' || quote == '\'' {
			word.WriteByte(c)
			some = true
			continue
		}
		name := variable(command[i+1:])
		i += len(name)
		if quote != 0 {
			word.WriteString(s.env[name])
			continue
		}
		for j, part := range strings.Fields(s.env[name]) { // blanks in a value separate words
			if j > 0 {
				end()
			}
			word.WriteString(part)
			some = true
		}
	}
	end()
	return words
}

// variable returns the name at the beginning of a text.
func variable(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if end < 0 {
		return text
	}
	return text[:end]
}

// command runs one program and returns its exit status.
func (s *run) command(words []string) int {
	arguments := words[1:]
	switch words[0] {
	case "true", "sleep":
		return 0
	case "false":
		return 1
	case "echo":
		fmt.Fprintln(&s.output, strings.Join(arguments, " "))
		return 0
	case "read":
		return s.read(arguments)
	case "exit":
		s.ended = true
		status, _ := strconv.Atoi(strings.Join(arguments, ""))
		return status
	case "ip":
		return s.ip(arguments)
	}
	fmt.Fprintf(&s.output, "sh: 1: %s: not found\n", words[0])
	return NotFound
}

func (s *run) read(names []string) int {
	line, rest, ended := strings.Cut(s.input, "\n")
	s.input = rest
	for _, name := range names[:min(1, len(names))] {
		s.env[name] = strings.TrimSpace(line)
	}
	if !ended {
		return 1
	}
	return 0
}

func (s *run) ip(arguments []string) int {
	known := []string{"add", "replace", "del"}
	if len(arguments) != 5 || arguments[0] != "route" || !slices.Contains(known, arguments[1]) || arguments[3] != "via" {
		fmt.Fprintf(&s.output, "ip: unknown arguments %q\n", arguments)
		return 1
	}
	dst, err := netip.ParsePrefix(arguments[2])
	if err != nil {
		fmt.Fprintf(&s.output, "Error: inet prefix is expected rather than %q.\n", arguments[2])
		return 1
	}
	via, err := netip.ParseAddr(arguments[4])
	if err != nil {
		fmt.Fprintf(&s.output, "Error: inet address is expected rather than %q.\n", arguments[4])
		return 1
	}
	if err := s.host.Route(arguments[1], dst, via); err != nil {
		fmt.Fprintf(&s.output, "RTNETLINK answers: %v\n", err)
		return 2
	}
	return 0
}
