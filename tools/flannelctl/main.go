package flannelctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/hostpaths"
	"github.com/flanneld/flannel/tools/output"
)

// The exit statuses.
const (
	statusOK      = 0
	statusTrouble = 1 // trouble was found, or the command failed
	statusUsage   = 2
)

// errTrouble is the error of a command whose printed result shows trouble.
// There is nothing to add to it.
var errTrouble = errors.New("trouble found")

// usageError is a mistake on the command line.
type usageError struct{ error }

// Main runs flannelctl with the arguments of this process and returns its exit status.
func Main() int {
	a := &app{stderr: os.Stderr, embedded: hostpaths.EmbeddedDir}
	a.Out = os.Stdout
	if width, is := terminal(os.Stdout); is {
		a.Terminal = true
		a.Width, a.Color = width, os.Getenv("NO_COLOR") == ""
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := a.run(ctx, os.Args[1:])
	stop()
	return status
}

// terminal returns the number of columns of a terminal, and false for a file
// that is none. Terminals of unknown width have 0 columns.
func terminal(f *os.File) (columns int, is bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}

// app is one run of flannelctl.
type app struct {
	output.Printer // of results, with the format that --output names
	stderr         io.Writer
	started        bool    // the command line was valid
	complaints     []error // about the variables of the datastore's flags
	embedded       string  // the default folder of flanneld's --embed-etcd
}

// run executes a command line and returns the exit status.
func (a *app) run(ctx context.Context, args []string) int {
	a.stderr = output.Safe{Out: a.stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.Out)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	usage := new(usageError)
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, errTrouble):
		return statusTrouble
	case !a.started || errors.As(err, usage):
		fmt.Fprintf(a.stderr, "flannelctl: %v\nflannelctl --help lists the commands and flags.\n", err)
		return statusUsage
	}
	fmt.Fprintf(a.stderr, "flannelctl: %v\n", err)
	return statusTrouble
}
