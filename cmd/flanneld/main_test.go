package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asFlanneld makes the test binary behave as the daemon, or, with the value
// stubborn, as a daemon whose shutdown never ends, or, with the value withoutEtcd,
// as one that was built without an etcd.
const (
	asFlanneld  = "TEST_BINARY_IS_FLANNELD"
	stubborn    = "stubborn"
	withoutEtcd = "without etcd"
)

func TestMain(m *testing.M) {
	role := os.Getenv(asFlanneld)
	if role == stubborn {
		ctx, _ := untilSignal()
		fmt.Println("listening to signals")
		<-ctx.Done()
		fmt.Println("stopping")
		time.Sleep(time.Hour)
	} else if role != "" {
		if role == withoutEtcd {
			startEtcd = nil
		}
		main()
	}
	os.Exit(m.Run())
}

// patience is the longest time that a test waits for a daemon.
const patience = time.Minute

// command returns the daemon with these arguments and only env in its
// environment. It ends after a time limit.
func command(t *testing.T, env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	var stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Args[0] = "flanneld"
	// A killed test binary leaves no daemon behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append([]string{asFlanneld + "=1"}, env...)
	cmd.Stdout, cmd.Stderr = &stderr, &stderr
	return cmd, &stderr
}

// runToEnd returns the output of a run that ends by itself, and its exit
// status.
func runToEnd(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	cmd, stderr := command(t, env, args...)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stderr.String(), cmd.ProcessState.ExitCode()
}

// lastMessage returns the text of the last log line, without klog's header.
func lastMessage(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := lines[len(lines)-1]
	if _, message, ok := strings.Cut(last, "] "); ok {
		return message
	}
	return last
}
