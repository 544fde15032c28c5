package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"gotest.tools/gotestsum/testjson"
)

func main() {
	var o options
	flag.StringVar(&o.dir, "C", "", "run go test in this directory")
	flag.Var(&o.notes, "note", "a line for the summary (repeatable)")
	flag.StringVar(&o.results, "results", "", "a file that carries results from run to run")
	flag.StringVar(&o.join, "join", "", "run nothing: add the results in this file to those of -results")
	flag.BoolVar(&o.more, "more", false, "another run follows with the same -results: leave the summary to it")
	flag.Parse()
	if (o.more || o.join != "") && o.results == "" {
		fmt.Fprintln(os.Stderr, "testsum: -more and -join need -results")
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := 0, error(nil)
	if o.join != "" {
		status, err = join(os.Stdout, o)
	} else {
		status, err = run(ctx, os.Stdout, o, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		status = max(1, status)
	}
	os.Exit(status)
}

type options struct {
	dir     string
	notes   notes
	results string
	join    string
	more    bool
}

// notes is a repeatable string flag.
type notes []string

func (n *notes) String() string     { return fmt.Sprint(*n) }
func (n *notes) Set(s string) error { *n = append(*n, s); return nil }

// run returns the exit status of go test, or 1 if it could not be run or its
// output shows a failure that its status hides.
func run(ctx context.Context, out io.Writer, o options, args []string) (int, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = o.dir
	temp, remove := temporary(os.TempDir(), "/tmp")
	defer remove()
	// The recorded output would keep colours.
	cmd.Env = append(os.Environ(), "GINKGO_NO_COLOR=TRUE", "TMPDIR="+temp)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("starting go test: %w", err)
	}
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout:                   stdout,
		Stderr:                   stderr,
		Handler:                  newProgress(out),
		IgnoreNonJSONOutputLines: true,
		Stop:                     stop(cmd),
	})
	if err != nil {
		return 1, errors.Join(fmt.Errorf("reading the output of go test: %w", err), cmd.Wait())
	}
	status := exitStatus(cmd.Wait())
	printFailures(out, execution)
	sum := summarise(execution, o.notes)
	if status == 0 && sum.total().failed > 0 {
		status = 1
	}
	err = sum.close(out, o)
	return max(status, sum.status(o)), err
}

// printFailures prints the output of failed tests, without the library's own
// closing line: it counts suites as one test.
func printFailures(out io.Writer, execution *testjson.Execution) {
	var text bytes.Buffer
	testjson.PrintSummary(&text, execution, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeOutput)
	failures := text.String()
	if end := strings.LastIndex(failures, "\nDONE "); end >= 0 {
		failures = failures[:end]
	}
	fmt.Fprint(out, failures)
}

// close writes the summary, or leaves it to the run that follows.
func (s *summary) close(out io.Writer, o options) error {
	if o.results != "" {
		if err := locked(o.results, func() error { return s.carry(o.results) }); err != nil {
			return err
		}
	}
	if !o.more {
		s.write(out)
	}
	return nil
}

// status returns 1 if this run writes the summary and has lost scenarios: no kernel ran them.
func (s *summary) status(o options) int {
	if !o.more && len(s.lost()) > 0 {
		return 1
	}
	return 0
}

// join adds the results that a run left in a file of its own, as does a run that may be
// repeated: only its last try counts. It returns the exit status.
func join(out io.Writer, o options) (int, error) {
	if _, err := os.Stat(o.join); err != nil {
		return 1, fmt.Errorf("the results to add: %w", err)
	}
	sum, err := load(o.join)
	if err != nil {
		return 1, err
	}
	err = sum.close(out, o)
	return sum.status(o), err
}

// stop ends go test when its output can no longer be read: it would block on a
// full pipe.
func stop(cmd *exec.Cmd) func() {
	return func() { _ = cmd.Process.Kill() }
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		return 1
	}
}

// progress prints a line for each package as it ends, and everything that go
// test prints besides its events.
type progress struct {
	out    io.Writer
	format testjson.EventFormatter
}

func newProgress(out io.Writer) progress {
	format := testjson.NewEventFormatter(out, "pkgname", testjson.FormatOptions{HideEmptyPackages: true})
	return progress{out, format}
}

func (p progress) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	return p.format.Format(event, execution)
}

func (p progress) Err(text string) error {
	_, err := fmt.Fprintln(p.out, text)
	return err
}
