package labworld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/tools/trace"
)

// netnsNode is a host of the lab with its daemon.
type netnsNode struct {
	*harness.Host
	node   *harness.Node
	world  *World
	subnet string // the subnet file that the pod was made from
}

func (n *netnsNode) Start(flags []string) error { return n.node.Start(flags...) }

func (n *netnsNode) Stop() error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.Stop(ctx)
}

func (n *netnsNode) Kill() error   { return n.node.Kill() }
func (n *netnsNode) Pause() error  { return n.node.Pause() }
func (n *netnsNode) Running() bool { return n.node.Running() }
func (n *netnsNode) Log() string   { return n.node.Log() }

// Resume does nothing to a daemon that does not run.
func (n *netnsNode) Resume() error {
	if !n.node.Running() {
		return nil
	}
	return n.node.Resume()
}

func (n *netnsNode) Exited() (int, bool) {
	s := n.node.ExitStatus()
	if s == nil || !s.Exited() {
		return 0, false
	}
	return s.ExitCode(), true
}

// Status asks the daemon as an operator would.
func (n *netnsNode) Status() (s node.Status, err error) {
	err = n.ask(control.StatusPage, &s)
	return s, err
}

// Peers implements [lang.PeerObserver].
func (n *netnsNode) Peers() ([]node.Peer, error) {
	var answer control.Peers
	err := n.ask(control.PeersPage, &answer)
	return answer.Peers, err
}

// LastLook implements [lang.LookObserver].
func (n *netnsNode) LastLook() (*dataplane.State, error) {
	var answer control.State
	err := n.ask(control.StatePage, &answer)
	return trace.CarriedBy(answer.Lanes), err
}

// Differences implements [lang.DifferenceObserver].
func (n *netnsNode) Differences() ([]node.Difference, error) {
	var answer control.Diff
	err := n.ask(control.DiffPage, &answer)
	return answer.Lanes, err
}

// Metrics implements [lang.Metered].
func (n *netnsNode) Metrics() (string, error) { return n.page("/metrics") }

// page returns a page of the daemon's health listener.
func (n *netnsNode) page(path string) (string, error) {
	if !n.node.Running() {
		return "", lang.ErrNoDaemon
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusBound)
	defer cancel()
	code, body, err := n.node.Get(ctx, path)
	if err != nil {
		return "", err
	}
	if code != http.StatusOK {
		return "", fmt.Errorf("node %s: %s: %d %s", n.Name, path, code, body)
	}
	return body, nil
}

// ask reads a page of package control.
func (n *netnsNode) ask(page string, answer any) error {
	body, err := n.page(page)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(body), answer); err != nil {
		return fmt.Errorf("node %s: %s: %w", n.Name, page, err)
	}
	return nil
}

// SubnetFile returns the text of the subnet file, "" if there is none.
func (n *netnsNode) SubnetFile() string {
	text, err := os.ReadFile(n.node.SubnetFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(text)
}

func (n *netnsNode) SyncPods() error {
	text := n.SubnetFile()
	if text == n.subnet && len(n.node.Pods) > 0 {
		return nil
	}
	n.world.pods.Lock()
	defer n.world.pods.Unlock()
	n.subnet = "" // so that the next call tries again
	if err := n.syncPods(); err != nil {
		n.world.note(fmt.Sprintf("pods of %s: %v", n.Name, err))
		return err
	}
	n.subnet = text
	return nil
}

func (n *netnsNode) syncPods() error {
	if len(n.node.Pods) > 0 {
		return n.node.SyncPods()
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	_, err := n.node.AddPod(ctx)
	return err
}

func (n *netnsNode) UplinkDown() error         { return n.node.UplinkDown() }
func (n *netnsNode) UplinkMTU(mtu int) error   { return n.node.SetUnderlayMTU(mtu) }
func (n *netnsNode) SetPodMTU(mtu int) error   { return n.node.SetPodMTU(mtu) }
func (n *netnsNode) LinkDown(d string) error   { return n.SetDown(d) }
func (n *netnsNode) LinkUp(d string) error     { return n.SetUp(d) }
func (n *netnsNode) FlushNeigh(d string) error { return n.FlushNeighs(d) }

// LinkDelete deletes a device. For a missing one it returns the drivers' error.
func (n *netnsNode) LinkDelete(d string) error {
	err := n.DeleteLink(d)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return fmt.Errorf("%w: %w", driver.ErrNotFound, err)
	}
	return err
}

func (n *netnsNode) UplinkUp() error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.UplinkUp(ctx)
}

func (n *netnsNode) Carrier(on bool) error {
	if !on {
		return n.node.PullCable()
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.PlugCable(ctx)
}

// file returns the path of one of the daemon's files.
func (n *netnsNode) file(f node.File) string {
	if f == node.StateFile {
		return n.node.StateFile()
	}
	return n.node.SubnetFile()
}

func (n *netnsNode) File(f node.File) ([]byte, error) {
	data, err := os.ReadFile(n.file(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (n *netnsNode) SetFile(f node.File, data []byte) error {
	if data != nil {
		return os.WriteFile(n.file(f), data, 0o600)
	}
	if err := os.Remove(n.file(f)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ReuseIndex implements [lang.LinkEditor]. The new device is a bridge, which
// every kernel has.
func (n *netnsNode) ReuseIndex(dev, other string) error {
	l, err := n.Netlink().LinkByName(dev)
	if err != nil {
		return fmt.Errorf("node %s: link %s: %w", n.Name, dev, err)
	}
	if err := n.LinkDelete(dev); err != nil {
		return err
	}
	o := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: other, Index: l.Attrs().Index}}
	if err := n.Netlink().LinkAdd(o); err != nil {
		return fmt.Errorf("node %s: give index %d to %s: %w", n.Name, o.Index, other, err)
	}
	return nil
}

// AddNIC implements [lang.NICAdder]. The other end of the pair stays on the host, so nothing answers.
func (n *netnsNode) AddNIC(dev string) error {
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: dev}, PeerName: dev + "-far"}
	if err := n.Netlink().LinkAdd(pair); err != nil {
		return fmt.Errorf("node %s: add %s: %w", n.Name, dev, err)
	}
	return errors.Join(n.SetUp(dev), n.SetUp(pair.PeerName))
}

func (n *netnsNode) UplinkAddress(ip netip.Addr) error {
	return n.node.SetUplinkAddr(netip.PrefixFrom(ip, n.node.Underlay(cidr.FamilyOf(ip)).Bits()))
}

func (n *netnsNode) Isolate(on bool) error {
	if on {
		return n.node.Isolate()
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.node.Rejoin(ctx)
}

func (n *netnsNode) Cut(on bool) error {
	if on {
		return n.world.Lab.Store.CutFrom(n.node)
	}
	return n.world.Lab.Store.RestoreTo(n.node)
}

// SetSysctl expects a path below /proc/sys. The lab expects one below /proc/sys/net. For a missing
// setting it returns the drivers' error.
func (n *netnsNode) SetSysctl(path, value string) error {
	if link, is := dataplane.TxChecksumOf(path); is {
		return n.apply(dataplane.Replace, dataplane.TxChecksum(link, value))
	}
	err := n.Sysctl(strings.TrimPrefix(path, "net/"), value)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", driver.ErrNotFound, err)
	}
	return err
}

func (n *netnsNode) Add(o dataplane.Object) error { return n.apply(dataplane.Create, o) }

func (n *netnsNode) Remove(o dataplane.Object) error { return n.apply(dataplane.Delete, o) }

func (n *netnsNode) Replace(o dataplane.Object) error { return n.apply(dataplane.Replace, o) }

func (n *netnsNode) apply(v dataplane.Verb, o dataplane.Object) error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.Apply(ctx, dataplane.Op{Verb: v, Object: o})
}

func (n *netnsNode) State(extent dataplane.Extent) (*dataplane.State, error) {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.Host.State(ctx, extent)
}
