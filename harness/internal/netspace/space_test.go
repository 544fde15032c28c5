package netspace_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/internal/netspace"
)

func TestMain(m *testing.M) { harness.Main(m) }

// current returns the name of the network namespace of the calling thread.
func current(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func newSpace(t *testing.T) *netspace.Space {
	t.Helper()
	s, err := netspace.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func name(t *testing.T, s *netspace.Space) string {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s.FD()))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestDoGoesThereAndBack(t *testing.T) {
	runtime.LockOSThread() // so that "back" is about one thread
	defer runtime.UnlockOSThread()
	outer := newSpace(t)
	inner := newSpace(t)
	before := current(t)
	wrong := errors.New("told to fail")
	err := outer.Do(func() error {
		if got := current(t); got != name(t, outer) {
			t.Errorf("in %s, want %s", got, name(t, outer))
		}
		err := inner.Do(func() error {
			if got := current(t); got != name(t, inner) {
				t.Errorf("in %s, want %s", got, name(t, inner))
			}
			return wrong
		})
		if got := current(t); got != name(t, outer) {
			t.Errorf("back in %s, want %s", got, name(t, outer))
		}
		return err
	})
	if !errors.Is(err, wrong) {
		t.Errorf("Do: %v, want what the function returned", err)
	}
	if got := current(t); got != before {
		t.Errorf("back in %s, want %s", got, before)
	}
}

func TestDoComesBackFromAPanic(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, before := newSpace(t), current(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not pass")
			}
		}()
		_ = s.Do(func() error { panic("told to") })
	}()
	if got := current(t); got != before {
		t.Errorf("back in %s, want %s", got, before)
	}
}

// TestProcessStaysWhereItIs checks that the main thread, whose namespace shows as that of
// the process, is never the home of a space.
func TestProcessStaysWhereItIs(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		newSpace(t)
	}
	if after, err := os.Readlink("/proc/self/ns/net"); after != before || err != nil {
		t.Errorf("the process is in %s (%v), want %s", after, err, before)
	}
}

// sleeper starts a process that ends only on a signal.
func sleeper(t *testing.T, s *netspace.Space) *netspace.Process {
	t.Helper()
	p, err := s.Start(exec.Command("sleep", "3600"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessIsInTheSpaceAndEndsWithIt(t *testing.T) {
	s, err := netspace.New()
	if err != nil {
		t.Fatal(err)
	}
	p := sleeper(t, s)
	if got, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.PID())); got != name(t, s) || err != nil {
		t.Errorf("the process is in %s (%v), want %s", got, err, name(t, s))
	}
	if p.State() != nil {
		t.Errorf("it ended: %v", p.State())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait(t.Context())
	if err != nil || state.String() != "signal: killed" {
		t.Errorf("it ended by %v (%v), want signal: killed", state, err)
	}
}

func TestPauseWaitsUntilItStands(t *testing.T) {
	p := sleeper(t, newSpace(t))
	for range 2 { // the second finds it paused
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		if err != nil || !strings.Contains(string(status), "State:\tT") {
			t.Errorf("not stopped (%v):\n%s", err, status)
		}
	}
	if err := errors.Join(p.Resume(), p.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	if state, err := p.Wait(t.Context()); err != nil || state.String() != "signal: terminated" {
		t.Errorf("it ended by %v (%v), want signal: terminated", state, err)
	}
	// Signalling a process that has ended is no error.
	if err := errors.Join(p.Pause(), p.Resume(), p.Kill()); err != nil {
		t.Error(err)
	}
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	_, err := newSpace(t).Start(exec.Command("/nonexistent/program"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/nonexistent/program") {
		t.Errorf("Start: %v, want the missing program", err)
	}
}
