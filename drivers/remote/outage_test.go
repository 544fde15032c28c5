package remote

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// Two servers are away, each for a reason of its own: the store tries them in turn, and its log
// names each once.
func TestOutageOfTwoServersIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	n := newNode(t)
	n.bases = []string{"http://first/v1/_", "http://second/v1/_"}
	n.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		n.lost(0, errors.New("connection refused"))
		n.lost(1, errors.New("no answer"))
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 {
		t.Errorf("%d lines, want 2:\n%s", lines, &log)
	}
}
