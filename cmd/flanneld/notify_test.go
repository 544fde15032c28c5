package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// TestNotifySocketThatNobodyReads fills the queue of a socket whose owner reads nothing. A write to it has a limit,
// and the function that the loop of a node calls does not wait for it.
func TestNotifySocketThatNobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for i := 0; err == nil; i++ {
		err = notifyWithin(time.Millisecond, fmt.Sprint(i))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write to a full socket: %v", err)
	}
	s := newSystemd()
	s.known()
	tell := s.of("")
	for i := range 100 {
		tell(node.Pulse{Programmed: 1, Reasons: []string{fmt.Sprint(i)}})
	}
}

// TestNotices sends messages while none is taken, and then takes all: READY=1 and the last status are among them.
func TestNotices(t *testing.T) {
	begun, taken := make(chan struct{}), make(chan string)
	blocked := true
	n := newNotifier(func(message string) error {
		if blocked {
			blocked = false
			close(begun)
			<-taken
			return os.ErrDeadlineExceeded
		}
		taken <- message
		return nil
	}, 0)
	n.add("STATUS=first")
	<-begun
	n.add("READY=1\nSTATUS=0")
	for i := range 5 * mostNotices {
		n.add(fmt.Sprintf("STATUS=%d", i+1))
	}
	taken <- ""
	last := fmt.Sprintf("STATUS=%d", 5*mostNotices)
	ready := 0
	for message := ""; message != last; {
		message = <-taken
		ready += strings.Count(message, "READY=1")
	}
	if ready != 1 {
		t.Errorf("READY=1 was sent %d times", ready)
	}
}
