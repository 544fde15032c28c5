package firewall

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// holdLock takes the lock of iptables-legacy, as iptables does, and returns a
// function that releases it.
func holdLock(t *testing.T) (release func()) {
	t.Helper()
	f, err := os.Create(os.Getenv("XTABLES_LOCKFILE"))
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// TestLockThatIsReleased: a write waits for a lock that is released soon.
func TestLockThatIsReleased(t *testing.T) {
	w := newWorld(t, variantLegacy)
	w.inspect(t)
	w.started(t)
	release := holdLock(t)
	defer release()
	chains := wanted(t, dataplane.IPTables, cidr.V4)
	done := make(chan error, 1)
	go func() { done <- errors.Join(w.f.Apply(t.Context(), ops(dataplane.Create, chains))...) }()
	for len(w.started(t)) == 0 { // until it waits, or is about to
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	w.expectNothingWritten(t)
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.expect(t, chains...)
}

func (w *world) expectNothingWritten(t *testing.T) {
	t.Helper()
	if out := w.sh(t, "iptables-legacy-save"); strings.Contains(out, "FLANNEL") {
		t.Errorf("written without the lock:\n%s", out)
	}
}

// TestLockThatIsKept: the wait has an end, a look does not wait, and writes
// succeed once the lock is free.
func TestLockThatIsKept(t *testing.T) {
	w := newWorld(t, variantLegacy)
	w.f.wait = 1
	chains := wanted(t, dataplane.IPTables, cidr.V4)[:1]
	release := holdLock(t)
	defer release()
	err := w.f.Apply(t.Context(), ops(dataplane.Create, chains))[0]
	want := "add " + chains[0].String() +
		": busy: another program holds the lock of iptables for more than 1 s, or changes the same tables: iptables-restore: "
	if !errors.Is(err, driver.ErrBusy) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	w.expect(t)
	release()
	w.apply(t, ops(dataplane.Create, chains)...)
	w.expect(t, chains...)
}

// TestStartedLater: a program opens the log before a reading and writes its line after it. The next
// reading returns that line.
func TestStartedLater(t *testing.T) {
	p := &programs{log: filepath.Join(t.TempDir(), "started")}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if early := p.started(t); len(early) > 0 {
		t.Errorf("started %q before its line", early)
	}
	if _, err := log.WriteString("iptables-save \nip6tabl"); err != nil {
		t.Fatal(err)
	}
	if got := p.started(t); !slices.Equal(got, []string{"iptables-save"}) {
		t.Errorf("started %q, want iptables-save", got)
	}
}
