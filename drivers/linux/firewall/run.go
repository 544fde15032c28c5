package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// longest is the time limit of a process. On a healthy machine a process ends long
// before.
const longest = 30 * time.Second

// processError is the failure of a program.
type processError struct {
	name   string
	said   string // its standard error
	status int
	err    error
}

func (e *processError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s: %v", e.name, e.err)
	}
	return fmt.Sprintf("%s: %s", e.name, e.said)
}

func (e *processError) Unwrap() error { return e.err }

// mostOutput is more than the rules of any host are as text, in bytes.
const mostOutput = 64 << 20

var errOutput = fmt.Errorf("it writes more than %d bytes", mostOutput)

// output keeps what a program writes. A write beyond [mostOutput] fails, and the program ends at its next one.
type output struct {
	text bytes.Buffer
	over bool
}

func (o *output) Write(b []byte) (int, error) {
	if o.text.Len()+len(b) > mostOutput {
		o.over = true
		return 0, errOutput
	}
	return o.text.Write(b)
}

// run runs a program in the namespace and returns what it writes.
func run(ctx context.Context, ns namespace.Namespace, input, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	var out, said output
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := ns.Do(cmd.Run)
	if err == nil {
		return out.text.String(), nil
	}
	if out.over || said.over {
		return "", &processError{name: filepath.Base(path), err: errOutput}
	}
	failure := &processError{name: filepath.Base(path), said: oneLine(said.text.String()), err: err}
	if ctx.Err() != nil {
		failure.err = ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		failure.status = exit.ExitCode()
	}
	return "", failure
}

// oneLine joins the lines of a program's output.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

// lockBusy is the exit status of iptables without the lock.
const lockBusy = 4

// said maps texts of nft and iptables to the classes of their errors.
var said = []struct {
	errno unix.Errno
	class error
}{
	{unix.EPERM, driver.ErrDenied},
	{unix.EACCES, driver.ErrDenied},
	{unix.EAGAIN, driver.ErrBusy},
	{unix.EBUSY, driver.ErrBusy},
	{unix.ENOMEM, driver.ErrBusy},
	{unix.ENOBUFS, driver.ErrBusy},
	{unix.EOPNOTSUPP, driver.ErrUnsupported},
	{unix.EAFNOSUPPORT, driver.ErrUnsupported},
}

// classOf returns the class of an error of nft or iptables.
func classOf(err error) error {
	if err == nil {
		return nil
	}
	if class := nl.NamedClass(err); class != nil {
		return class
	}
	for _, e := range said {
		if errors.Is(err, e.errno) || strings.Contains(strings.ToLower(err.Error()), e.errno.Error()) {
			return e.class
		}
	}
	var failure *processError
	locked := errors.As(err, &failure) && failure.status == lockBusy && strings.Contains(failure.said, "xtables lock")
	if locked || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return driver.ErrBusy
	}
	return driver.ErrInvalid
}
