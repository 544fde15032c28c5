package cleanup

import (
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/control"
)

// running returns the ids of the daemons on this host, and of those that answer at the
// control sockets: /proc shows no daemon of another PID namespace, or under another
// name. An id of another PID namespace is 0.
func (o Options) running() ([]int, error) {
	ids, err := o.Daemons()
	for _, path := range o.SubnetFiles {
		id, answers := askedAt(o.at(control.Socket(path)))
		if answers && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// askedAt returns the id of the process that listens at a socket.
func askedAt(socket string) (id int, answers bool) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return 0, false
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, true
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			id = int(peer.Pid)
		}
	})
	return id, true
}
