package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/charon"
	"github.com/flanneld/flannel/internal/wholedump"
)

// charonScript is the program that the node's daemon runs as charon. It gives charon a
// /run of its own: the real one keeps the number of its process in one file for all
// network namespaces.
func (n *Node) charonScript() string { return n.file("charon") }

// charonSocket is the control socket of the node's charon.
func (n *Node) charonSocket() string { return n.file("vici") }

// charonArgs returns the daemon's flags for its charon. A machine without charon needs none.
func (n *Node) charonArgs() []string {
	return []string{"--charon-exec-path=" + n.charonScript(), "--charon-vici-uri=unix://" + n.charonSocket()}
}

// InstallCharon makes the program that the daemon runs as charon. Without charon on
// this machine it does nothing.
func (n *Node) InstallCharon() error {
	path, err := charon.Find("")
	if err != nil {
		return nil
	}
	script := fmt.Sprintf("#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /run && exec %s'\n", path)
	return os.WriteFile(n.charonScript(), []byte(script), 0o755)
}

// RemoveCharon removes the program.
func (n *Node) RemoveCharon() error { return os.Remove(n.charonScript()) }

// KillCharon kills the daemon's charon.
func (n *Node) KillCharon() error {
	pid, err := n.CharonPID()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// CharonPID returns the id of the process of the daemon's charon.
func (n *Node) CharonPID() (int, error) {
	files, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		pid, err := strconv.Atoi(f.Name())
		if err == nil && parentOf(pid) == n.PID() {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("node %s: its daemon runs no charon", n.Name)
}

// Conns returns the number of connections that the node's charon has loaded.
func (n *Node) Conns() (int, error) {
	session, err := vici.NewSession(vici.WithSocketPath(n.charonSocket()))
	if err != nil {
		return 0, fmt.Errorf("node %s: charon: %w", n.Name, err)
	}
	defer session.Close()
	m, err := session.CommandRequest("get-conns", nil)
	if err != nil {
		return 0, fmt.Errorf("node %s: get-conns: %w", n.Name, err)
	}
	names, _ := m.Get("conns").([]string)
	return len(names), nil
}

// parentOf returns the parent of a process, or 0 if there is no such process.
func parentOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ") // the name before may hold anything
	fields := strings.Fields(after)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// UnloadConn takes a connection from the node's charon and ends its tunnel, as another
// program may do.
func (n *Node) UnloadConn(k dataplane.ConnKey) error {
	session, err := vici.NewSession(vici.WithSocketPath(n.charonSocket()))
	if err != nil {
		return fmt.Errorf("node %s: charon: %w", n.Name, err)
	}
	defer session.Close()
	unload, end := vici.NewMessage(), vici.NewMessage()
	err = errors.Join(unload.Set("name", k.Name()), end.Set("ike", k.Name()), end.Set("timeout", "-1"))
	if err == nil {
		_, err = session.CommandRequest("unload-conn", unload)
	}
	if err == nil {
		err = charon.UntilNone(func() error {
			_, err := session.CommandRequest("terminate", end)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("node %s: unload %s: %w", n.Name, k.Name(), err)
	}
	return nil
}

// Negotiating reports whether the node's charon is negotiating a tunnel with another host.
func (n *Node) Negotiating(peer netip.Addr) (bool, error) {
	session, err := vici.NewSession(vici.WithSocketPath(n.charonSocket()))
	if err != nil {
		return false, fmt.Errorf("node %s: charon: %w", n.Name, err)
	}
	defer session.Close()
	sas, err := session.StreamedCommandRequest("list-sas", "list-sa", nil)
	if err != nil {
		return false, fmt.Errorf("node %s: list-sas: %w", n.Name, err)
	}
	for _, m := range sas {
		for _, name := range m.Keys() {
			sa, ok := m.Get(name).(*vici.Message)
			if ok && sa.Get("remote-host") == peer.String() && sa.Get("state") == "CONNECTING" {
				return true, nil
			}
		}
	}
	return false, nil
}

// TunnelKey names the key of one direction of an IPsec tunnel.
type TunnelKey struct {
	From, To netip.Addr
	SPI      uint32
}

// TunnelKeys returns the kernel's keys of IPsec tunnels, oldest first.
func (n *Node) TunnelKeys() ([]TunnelKey, error) {
	states, err := n.xfrmStates()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(states, func(a, b netlink.XfrmState) int {
		return int(a.Statistics.AddTime) - int(b.Statistics.AddTime)
	})
	var keys []TunnelKey
	for _, s := range states {
		from, _ := netip.AddrFromSlice(s.Src)
		to, _ := netip.AddrFromSlice(s.Dst)
		keys = append(keys, TunnelKey{From: from.Unmap(), To: to.Unmap(), SPI: uint32(s.Spi)})
	}
	return keys, nil
}

// DropTunnelKeys removes the kernel's keys of the tunnels with another host.
func (n *Node) DropTunnelKeys(peer netip.Addr) error {
	states, err := n.xfrmStates()
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Src.Equal(peer.AsSlice()) || s.Dst.Equal(peer.AsSlice()) {
			err = errors.Join(err, n.Do(func() error { return netlink.XfrmStateDel(&s) }))
		}
	}
	return err
}

// xfrmStates returns the ESP keys of the kernel. A larval one has none yet.
func (n *Node) xfrmStates() (states []netlink.XfrmState, err error) {
	err = n.Do(func() (err error) {
		states, err = wholedump.Here.XfrmStateList(netlink.FAMILY_V4)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: read the keys of IPsec: %w", n.Name, err)
	}
	return slices.DeleteFunc(states, func(s netlink.XfrmState) bool { return s.Aead == nil && s.Crypt == nil }), nil
}
