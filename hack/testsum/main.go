package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"gotest.tools/gotestsum/testjson"
)

func main() {
	var notes notes
	flag.Var(&notes, "note", "a line for the summary (repeatable)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, os.Stdout, notes, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	os.Exit(status)
}

// notes is a repeatable string flag.
type notes []string

func (n *notes) String() string     { return fmt.Sprint(*n) }
func (n *notes) Set(s string) error { *n = append(*n, s); return nil }

// run returns the exit status: that of go test, or 1 if it could not be run
// or its output shows a failure that its status hides.
func run(ctx context.Context, out io.Writer, notes, args []string) (int, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = append(os.Environ(), "GINKGO_NO_COLOR=TRUE") // colours would be kept in the recorded output
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
		Handler:                  progress{out, testjson.NewEventFormatter(out, "pkgname", testjson.FormatOptions{HideEmptyPackages: true})},
		IgnoreNonJSONOutputLines: true,
		Stop:                     stop(cmd),
	})
	if err != nil {
		return 1, errors.Join(fmt.Errorf("reading the output of go test: %w", err), cmd.Wait())
	}
	status := exitStatus(cmd.Wait())
	sum := summarise(execution)
	testjson.PrintSummary(out, execution, testjson.SummarizeFailed|testjson.SummarizeErrors|testjson.SummarizeOutput)
	sum.write(out, notes)
	if status == 0 && sum.total.failed > 0 {
		status = 1
	}
	return status, nil
}

// stop ends go test when its output can no longer be read, lest it block on a full pipe.
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

// progress prints a line for each package as it ends, and whatever go test
// says beside its events.
type progress struct {
	out    io.Writer
	format testjson.EventFormatter
}

func (p progress) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	return p.format.Format(event, execution)
}

func (p progress) Err(text string) error {
	_, err := fmt.Fprintln(p.out, text)
	return err
}
