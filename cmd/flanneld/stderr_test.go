package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLogThatNobodyReads(t *testing.T) {
	r, w := io.Pipe()
	log := newPatientLog(w, time.Millisecond)
	write := func() {
		t.Helper()
		if n, err := log.Write([]byte("line\n")); n != len("line\n") || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	write()
	if _, err := r.Read(make([]byte, 1)); err != nil { // now this line is being written
		t.Fatal(err)
	}
	for range mostLines + 4 {
		write()
	}
	want := "lines of the log are lost"
	var got strings.Builder
	for buf := make([]byte, 100); !strings.Contains(got.String(), want); {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	if !strings.Contains(got.String(), "flanneld: 4 "+want) {
		t.Errorf("the log says %q, want 4 %s", got.String(), want)
	}
}

// A daemon whose standard error is a full pipe runs, answers and ends; so does one whose reader has gone.
func TestDaemonWithoutReaderOfItsLog(t *testing.T) {
	for name, hasGone := range map[string]bool{"full pipe": false, "reader gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			fill(t, w)
			if hasGone {
				r.Close()
			}
			subnetFile := filepath.Join(t.TempDir(), "subnet.env")
			p := prepare(t, nil, "--etcd-endpoints=http://127.0.0.1:1", "--subnet-file="+subnetFile)
			p.cmd.Stdout, p.cmd.Stderr = nil, w
			p.start()
			w.Close()
			p.await("/healthz", "flanneld is running")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.done:
			case <-time.After(patience):
				t.Fatal("SIGTERM did not end the daemon")
			}
			if status := p.cmd.ProcessState; status.ExitCode() != statusOK {
				t.Errorf("the daemon ended with %v", status)
			}
		})
	}
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	var err error
	for err == nil {
		err = w.SetWriteDeadline(time.Now().Add(time.Millisecond))
		if err == nil {
			_, err = w.Write(make([]byte, 4096))
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}
