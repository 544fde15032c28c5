package embedded

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/flanneld/flannel/internal/hostpaths"
)

// maxSocketPath is the length of the longest path of a unix socket: the kernel's
// struct sockaddr_un has 108 bytes, and the path ends with a zero byte.
const maxSocketPath = 107

// SocketURL returns the URL of the unix socket in a data directory, for etcd and for its clients.
func SocketURL(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("path of the data directory: %w", err)
	}
	socket := hostpaths.EmbeddedSocket(dir)
	if excess := len(socket) - maxSocketPath; excess > 0 {
		return "", fmt.Errorf("the socket %s has a path of %d bytes, and the kernel allows %d: choose a data directory "+
			"whose path is shorter by %d", socket, len(socket), maxSocketPath, excess)
	}
	// The client takes the path as it is, etcd and gRPC parse a URL: the two must agree.
	raw := "unix://" + socket
	u, err := url.Parse(raw)
	if err != nil || u.Path != socket || strings.ContainsAny(socket, "@,") {
		return "", fmt.Errorf("the data directory %q has a character in its path that a URL cannot have: choose another",
			dir)
	}
	return raw, nil
}

// closeToOthers makes the sockets of an etcd the owner's alone. Until then their directory closes them.
func closeToOthers(e *embed.Etcd) error {
	for _, l := range e.Clients {
		if a, ok := l.Addr().(*net.UnixAddr); ok {
			if err := os.Chmod(a.Name, 0o600); err != nil {
				return fmt.Errorf("close socket to others: %w", err)
			}
		}
	}
	return nil
}
