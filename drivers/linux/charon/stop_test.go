package charon

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/internal/pace"
	"github.com/flanneld/flannel/internal/wake"
)

// halted returns a driver whose charon takes no more requests, and a signal of each request.
func halted(t *testing.T) (*node, wake.Signal) {
	t.Helper()
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon")
	requests := &recorder{writing: wake.NewSignal()}
	n.recordBy(requests)
	if err := syscall.Kill(n.child.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return n, requests.writing
}

// unload is an op that takes a request.
var unload = []dataplane.Op{{Verb: dataplane.Delete, Object: connOf(1, 16)}}

// endsWith waits for a call to end with an error. It may take the time in which charon ends.
func endsWith(t *testing.T, call <-chan error, want error) {
	t.Helper()
	select {
	case err := <-call:
		if !errors.Is(err, want) {
			t.Errorf("the call ended with %v, want %v", err, want)
		}
	case <-time.After(pace.Scale(2 * endTime)):
		t.Fatal("the call does not end")
	}
}

// A stop of the daemon ends a request that charon does not answer, whatever time is left of the plan.
func TestStopEndsRequest(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		want  error
	}{
		"in time":              {time.Minute, context.Canceled},
		"shortly before it":    {grace + time.Second, context.Canceled},
		"after the plan's end": {50 * time.Millisecond, context.DeadlineExceeded}, // no request has begun
	} {
		t.Run(name, func(t *testing.T) {
			n, requests := halted(t)
			daemon, stop := context.WithCancel(t.Context())
			defer stop()
			plan, cancel := context.WithTimeout(daemon, c.limit)
			defer cancel()
			call := make(chan error, 1)
			go func() { call <- n.Apply(plan, unload)[0] }()
			select {
			case <-requests:
			case <-plan.Done():
			}
			stop()
			endsWith(t, call, c.want)
		})
	}
}

// A look at a charon that does not answer ends with its time, and ends charon.
func TestLookAtHaltedCharon(t *testing.T) {
	n, requests := halted(t)
	ctx, cancel := context.WithCancel(t.Context())
	call := make(chan error, 1)
	go func() {
		_, err := n.Look(ctx, dataplane.Extent{Passphrase: psk})
		call <- err
	}()
	<-requests
	cancel()
	endsWith(t, call, context.Canceled)
	n.await("")
}

// Close ends a call that the daemon waits for no longer, and charon with it. A later call starts no charon.
func TestCloseBesideCall(t *testing.T) {
	n, requests := halted(t)
	call, closed := make(chan error, 1), make(chan error, 1)
	go func() { call <- n.Apply(t.Context(), unload)[0] }()
	<-requests
	go func() { closed <- n.Close() }()
	endsWith(t, closed, nil)
	endsWith(t, call, context.Canceled)
	if err := n.Apply(t.Context(), parse(t, "add ike charon"))[0]; !errors.Is(err, context.Canceled) {
		t.Errorf("a call after the end: %v", err)
	}
}
