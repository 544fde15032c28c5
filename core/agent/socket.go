package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/node"
)

// socketMode lets only the owner ask.
const socketMode = 0o600

// Socket answers the pages of package control at a unix socket, from the first Keep until Close.
type Socket struct {
	path   string
	server *Server

	mu       sync.Mutex
	listener *net.UnixListener // nil: there was no socket yet
	file     fs.FileInfo       // of the listener, as it was made
	former   *net.UnixListener // whose file is gone; nil: none
	closed   bool
	failure  string // why the last Keep could not make it
}

// NewSocket returns a socket that is not there yet.
func NewSocket(path string, h *Health) *Socket {
	mux := http.NewServeMux()
	addPages(mux, NewRoster(h), root, everyone)
	return &Socket{path: path, server: newServer(mux, fromHere)}
}

// Keep makes the socket if it is not at its path, for the first time or because another program has
// removed it. Requests under way go on. A socket that a killed process left makes way, and the one of
// a running process stays. Keep returns the event to log, or nil if there is no news.
func (s *Socket) Keep(ctx context.Context) *node.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget() // a look later it has accepted the last client that found it
	if s.closed || s.inPlace() {
		return nil
	}
	former, failure := s.listener, s.failure
	if err := s.listen(ctx); err != nil {
		s.failure = err.Error()
		if s.failure == failure {
			return nil
		}
		return &node.Event{Kind: "socket-failed", Level: node.Warning,
			Text: fmt.Sprintf("flannelctl cannot ask: %v; trying again from time to time", err)}
	}
	s.failure, s.former = "", former
	switch {
	case failure != "":
		return &node.Event{Kind: "socket", Level: node.Info, Text: "flannelctl can ask at " + s.path}
	case former != nil:
		return &node.Event{Kind: "socket-gone", Level: node.Warning,
			Text: "another program removed the control socket " + s.path + "; it is there again"}
	}
	return nil
}

// forget closes the listener whose file is gone.
func (s *Socket) forget() {
	if s.former != nil {
		_ = s.former.Close()
		s.former = nil
	}
}

// inPlace reports whether the file at the path is that of the listener.
func (s *Socket) inPlace() bool {
	info, err := os.Lstat(s.path)
	return err == nil && s.file != nil && os.SameFile(info, s.file)
}

// listen makes the socket and its directory, and answers there.
func (s *Socket) listen(ctx context.Context) error {
	if err := makeDir(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	l, err := listenUnix(ctx, s.path)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = removeStale(ctx, s.path)
		if err == nil {
			l, err = listenUnix(ctx, s.path)
		}
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	file, err := os.Lstat(s.path)
	if err != nil {
		return fmt.Errorf("control socket: %w", errors.Join(err, l.Close()))
	}
	s.listener, s.file = l, file
	go s.server.accept(l)
	return nil
}

// Close removes the socket, unless another one has taken its place, and ends as [Server.Close] does.
func (s *Socket) Close() error {
	s.mu.Lock()
	var err error
	if !s.closed && s.inPlace() {
		err = os.Remove(s.path)
	}
	s.closed = true
	s.mu.Unlock()
	return errors.Join(err, s.server.Close())
}

// listenUnix listens at a path. The listener leaves its file alone when it closes: by then another
// socket may be there.
func listenUnix(ctx context.Context, path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		// The file of a socket gets the mode that the socket has when it is bound.
		err := c.Control(func(fd uintptr) { refused = unix.Fchmod(int(fd), socketMode) })
		return errors.Join(err, refused)
	}}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	at := l.(*net.UnixListener)
	at.SetUnlinkOnClose(false)
	return at, nil
}

// removeStale removes a socket at which no process answers.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way, and no socket", path)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("another process answers at %s: does a second flanneld write the same subnet file?", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
