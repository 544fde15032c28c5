package cnicalls

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// commands are the commands of the CNI protocol that are counted, in the order of the file.
var commands = [...]string{"ADD", "CHECK", "DEL", "GC", "STATUS"}

// Call is a kind of call.
type Call struct {
	Command string
	Failed  bool
}

// Calls holds numbers of calls.
type Calls map[Call]uint64

// None returns the number 0 for each kind of call.
func None() Calls {
	calls := Calls{}
	for _, command := range commands {
		calls[Call{command, false}], calls[Call{command, true}] = 0, 0
	}
	return calls
}

// digits is the width of a number, so that the file never changes its size: a reader without the
// lock, such as cat, sees whole lines.
const digits = 20

// size is the size of a file.
var size = len(None().encode())

// encode returns the content of the file.
func (c Calls) encode() []byte {
	var b bytes.Buffer
	for _, command := range commands {
		fmt.Fprintf(&b, "%s %0*d %0*d\n", command, digits, c[Call{command, false}], digits, c[Call{command, true}])
	}
	return b.Bytes()
}

// Parse returns the numbers of a file's content.
func Parse(text []byte) (Calls, error) {
	calls := Calls{}
	rest := string(text)
	for _, command := range commands {
		line, after, whole := strings.Cut(rest, "\n")
		fields := strings.Split(line, " ")
		if !whole || len(fields) != 3 || fields[0] != command {
			return nil, fmt.Errorf("no line of %s", command)
		}
		for i, field := range fields[1:] {
			n, err := strconv.ParseUint(field, 10, 64)
			if err != nil || len(field) != digits {
				return nil, fmt.Errorf("line of %s: no number of %d digits", command, digits)
			}
			calls[Call{command, i == 1}] = n
		}
		rest = after
	}
	if rest != "" {
		return nil, errors.New("more than the known lines")
	}
	return calls, nil
}
