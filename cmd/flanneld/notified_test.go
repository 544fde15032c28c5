package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// notified is systemd's end of the notify socket.
type notified struct {
	t      *testing.T
	socket *net.UnixConn
	path   string
}

func newNotified(t *testing.T) *notified {
	t.Helper()
	n := &notified{t: t, path: filepath.Join(t.TempDir(), "notify")}
	var err error
	n.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.socket.Close() })
	return n
}

func (n *notified) env() []string { return []string{"NOTIFY_SOCKET=" + n.path} }

// await reads until a message begins with start and holds all parts, and returns those before it.
func (n *notified) await(start string, parts ...string) (before []string) {
	n.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		message, err := n.read(deadline)
		if err != nil {
			n.t.Fatalf("no message %q %q: %v; systemd was told %q", start, parts, err, before)
		}
		found := strings.HasPrefix(message, start)
		for _, part := range parts {
			found = found && strings.Contains(message, part)
		}
		if found {
			return before
		}
		before = append(before, message)
	}
}

// until reads until a message ends with last, and returns all messages.
func (n *notified) until(last string) (messages []string) {
	n.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		message, err := n.read(deadline)
		if err != nil {
			n.t.Fatalf("no message ends with %q: %v; systemd was told %q", last, err, messages)
		}
		messages = append(messages, message)
		if strings.HasSuffix(message, last) {
			return messages
		}
	}
}

// rest returns the unread messages of a process that has ended.
func (n *notified) rest() (messages []string) {
	n.t.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	const last = "the last message"
	if _, err := c.Write([]byte(last)); err != nil {
		n.t.Fatal(err)
	}
	return n.await(last)
}

func (n *notified) read(deadline time.Time) (string, error) {
	if err := n.socket.SetReadDeadline(deadline); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	size, err := n.socket.Read(buf)
	return string(buf[:size]), err
}
