package flannelctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// programLimit bounds the time of one program, and outputLimit what it may print, in bytes: the trace
// of another host comes from whatever its shell runs.
const (
	programLimit = 10 * time.Second
	outputLimit  = 64 << 20
)

// runner runs a program on this host.
type runner = func(ctx context.Context, argv ...string) ([]byte, error)

// runProgram runs a program and returns its output, also that of one that fails. It ends a program
// that prints too much.
func runProgram(ctx context.Context, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out, complaint := bounded{left: outputLimit}, bounded{left: outputLimit}
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	switch {
	case out.full || complaint.full:
		err = fmt.Errorf("%w, after more than %d bytes", errTooMuch, outputLimit)
	case err != nil && complaint.text.Len() > 0:
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.text.String()))
	}
	return out.text.Bytes(), err
}

// errTooMuch is the error of a program that printed too much.
var errTooMuch = errors.New("ended because of its output")

// bounded keeps what is written to it, up to a number of bytes.
type bounded struct {
	text bytes.Buffer
	left int
	full bool // there was more
}

// Write implements [io.Writer]. An error closes the pipe from which a program's output comes.
func (b *bounded) Write(text []byte) (int, error) {
	if len(text) > b.left {
		b.full = true
		return 0, errTooMuch
	}
	b.left -= len(text)
	return b.text.Write(text)
}
