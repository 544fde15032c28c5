package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/internal/wake"
)

const (
	notifyLimit = 5 * time.Second // of one message
	notifyAgain = 5 * time.Second // after a message that was not taken
	mostNotices = 16              // messages that wait
)

// notifySocket sends a message to the socket NOTIFY_SOCKET, if there is one.
func notifySocket(message string) error { return notifyWithin(notifyLimit, message) }

// notifyWithin has a limit, since a write to a socket whose owner reads nothing blocks.
func notifyWithin(limit time.Duration, message string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	if _, err := conn.Write([]byte(message)); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}

// notifier sends messages to systemd in a goroutine of its own: no loop of a node waits for systemd.
type notifier struct {
	send  func(message string) error
	again time.Duration
	news  wake.Signal

	mu    sync.Mutex
	queue []string
}

func newNotifier(send func(string) error, again time.Duration) *notifier {
	n := &notifier{send: send, again: again, news: wake.NewSignal()}
	go n.run()
	return n
}

// add sends a message soon. Beyond a number of waiting ones the oldest is left out, except for READY=1.
func (n *notifier) add(message string) {
	n.mu.Lock()
	n.queue = append(n.queue, message)
	if len(n.queue) > mostNotices {
		ready := strings.HasPrefix(n.queue[0], sd.SdNotifyReady)
		n.queue = n.queue[1:]
		if ready {
			n.queue[0] = withReady(n.queue[0])
		}
	}
	n.mu.Unlock()
	n.news.Send()
}

func withReady(message string) string { return sd.SdNotifyReady + "\n" + message }

// run sends the messages in order. One that is not taken in time is sent again until a later message says the same.
func (n *notifier) run() {
	failed := ""
	for range n.news {
		for message := n.first(); message != ""; message = n.first() {
			err := n.send(message)
			if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
				n.sent(message)
			}
			if err == nil {
				failed = ""
				continue
			}
			if text := err.Error(); text != failed {
				klog.Warningf("sd_notify: %s", text)
				failed = text
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				time.Sleep(n.again)
			}
		}
	}
}

// first returns the message to send; "": none.
func (n *notifier) first() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) == 0 {
		return ""
	}
	return n.queue[0]
}

// sent removes a message, if it is still the first one.
func (n *notifier) sent(message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) > 0 && n.queue[0] == message {
		n.queue = n.queue[1:]
	}
}
