package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketMode lets only the owner ask.
const socketMode = 0o600

// ServeSocket answers the pages of package control at a unix socket until Close,
// which removes the socket. A socket that a killed process left makes way.
func ServeSocket(ctx context.Context, path string, h *Health) (*Server, error) {
	l, err := listenUnix(ctx, path)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = removeStale(ctx, path)
		if err == nil {
			l, err = listenUnix(ctx, path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	mux := http.NewServeMux()
	addPages(mux, NewRoster(h), everyone)
	return serveAt(l, mux), nil
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var refused error
		// The file of a socket gets the mode that the socket has when it is bound.
		err := c.Control(func(fd uintptr) { refused = unix.Fchmod(int(fd), socketMode) })
		return errors.Join(err, refused)
	}}
	return lc.Listen(ctx, "unix", path)
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
