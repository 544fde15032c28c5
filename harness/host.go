package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness/internal/netspace"
	"github.com/flanneld/flannel/internal/wholedump"
)

// Host is a machine of the lab: a network namespace with a name.
type Host struct {
	Name  string
	lab   *Lab
	space *netspace.Space
	nl    *wholedump.Handle
	pause *netspace.Process       // started by Hold
	ports map[uint16]*net.UDPConn // held by TakePort
	// received counts the datagrams that came to them.
	received map[uint16]int
}

// FD returns the namespace of the host, which is open until the lab closes.
func (h *Host) FD() int { return h.space.FD() }

// String names the host in errors.
func (h *Host) String() string { return "host " + h.Name }

// setting is a kernel setting, by its path below /proc/sys/net.
type setting struct{ path, value string }

// hostSettings are the settings of every host: no duplicate address detection,
// because duplicates cannot exist here.
var hostSettings = []setting{
	{"ipv6/conf/all/accept_dad", "0"},
	{"ipv6/conf/default/accept_dad", "0"},
}

// routerSettings are the settings of every host that forwards. A new namespace
// has rp_filter 0; systemd sets it to 2, loose.
var routerSettings = []setting{
	{"ipv4/ip_forward", "1"},
	{"ipv6/conf/all/forwarding", "1"},
	{"ipv4/conf/all/rp_filter", "2"},
	{"ipv4/conf/default/rp_filter", "2"},
}

// newHost makes a host with only a loopback device, which is up.
func (l *Lab) newHost(name string, settings ...setting) (*Host, error) {
	space, err := netspace.New()
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", name, err)
	}
	h := &Host{Name: name, lab: l, space: space, ports: map[uint16]*net.UDPConn{},
		received: map[uint16]int{}}
	l.hosts = append(l.hosts, h)
	h.nl, err = wholedump.At(netns.NsHandle(space.FD()), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("host %s: open netlink: %w", name, err)
	}
	for _, s := range append(hostSettings[:len(hostSettings):len(hostSettings)], settings...) {
		if err := h.Sysctl(s.path, s.value); err != nil {
			return nil, err
		}
	}
	return h, h.SetUp("lo")
}

// Do runs fn inside the host, on the calling goroutine. Sockets that fn opens work
// everywhere afterwards; goroutines and processes that it starts are outside.
func (h *Host) Do(fn func() error) error { return h.space.Do(fn) }

// Netlink returns a handle on the host's rtnetlink. The lab closes it.
func (h *Host) Netlink() *wholedump.Handle { return h.nl }

// NamespaceFD returns a file descriptor of the host's network namespace.
func (h *Host) NamespaceFD() int { return h.space.FD() }

// Sysctl sets a kernel setting by its path below /proc/sys/net.
func (h *Host) Sysctl(path, value string) error {
	err := h.Do(func() error { return os.WriteFile(filepath.Join("/proc/sys/net", path), []byte(value), 0) })
	if err != nil {
		return fmt.Errorf("host %s: set %s to %s: %w", h.Name, path, value, err)
	}
	return nil
}

// Dial connects from inside the host. The address must be an IP literal.
func (h *Host) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = h.Do(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen listens for TCP connections inside the host.
func (h *Host) Listen(addr netip.AddrPort) (l net.Listener, err error) {
	err = h.Do(func() error {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
		return err
	})
	return l, err
}

// Hold returns the id of a process that does nothing in the host, so that nsenter
// can find the namespace.
func (h *Host) Hold() (pid int, err error) {
	if h.pause == nil {
		h.pause, err = h.space.Start(childCommand(childPause))
		if err != nil {
			return 0, fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return h.pause.PID(), nil
}

// Enter returns the command line by which a person enters the host.
func (h *Host) Enter() (string, error) {
	pid, err := h.Hold()
	if err != nil {
		return "", err
	}
	if initialUserns() {
		return fmt.Sprintf("nsenter -t %d -n", pid), nil
	}
	return fmt.Sprintf("nsenter -t %d -U --preserve-credentials -n", pid), nil
}

// close ends the host and every process in it.
func (h *Host) close() error {
	var err error
	if h.pause != nil {
		err = h.pause.Kill()
	}
	for _, conn := range h.ports {
		err = errors.Join(err, conn.Close())
	}
	if h.nl != nil {
		h.nl.Close()
	}
	return errors.Join(err, h.space.Close())
}

// defaultRoute is the destination of everything.
func defaultRoute(f cidr.Family) netip.Prefix {
	return netip.PrefixFrom([2]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[f], 0)
}
