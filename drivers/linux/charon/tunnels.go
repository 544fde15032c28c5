package charon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/strongswan/govici/vici"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// observeTunnels adds the tunnels that charon has and whose keys are in the kernel, and the keys of former tunnels.
// Charon does not notice when another program removes them.
func (d *Driver) observeTunnels(state *dataplane.State) error {
	sas, err := d.session.StreamedCommandRequest("list-sas", "list-sa", nil)
	if err != nil {
		return fmt.Errorf("list-sas: %w", err)
	}
	tunnels := map[dataplane.ConnKey][]spis{}
	known := map[uint64]bool{}
	for _, m := range sas {
		for _, name := range m.Keys() {
			section, ok := m.Get(name).(*vici.Message)
			if !ok {
				continue
			}
			addSPIs(known, section)
			if k, ours := dataplane.ParseConnName(name); ours {
				tunnels[k] = append(tunnels[k], installed(section, k.Child())...)
			}
		}
	}
	keys, err := d.kernelKeys()
	if err != nil {
		return fmt.Errorf("read the keys of IPsec: %w", err)
	}
	d.former = formerKeys(keys, known)
	for k := range d.former {
		state.Put(k)
	}
	d.keyless = map[dataplane.ConnKey]bool{}
	present := map[uint64]bool{}
	for _, s := range keys {
		present[spiIn(s)] = true
	}
	for k, pairs := range tunnels {
		whole := func(s spis) bool { return present[s.in] && present[s.out] }
		switch {
		case slices.ContainsFunc(pairs, whole):
			state.Put(dataplane.Tunnel{ConnKey: k})
		case len(pairs) > 0:
			d.keyless[k] = true
		}
	}
	return nil
}

// spiIn returns the number of a key in the kernel.
func spiIn(s netlink.XfrmState) uint64 { return uint64(uint32(s.Spi)) }

// formerKeys returns the kernel's keys of flannel's tunnels that charon does not know.
func formerKeys(keys []netlink.XfrmState, known map[uint64]bool) map[dataplane.FormerKey][]netlink.XfrmState {
	former := map[dataplane.FormerKey][]netlink.XfrmState{}
	for _, s := range keys {
		from, _ := netip.AddrFromSlice(s.Src)
		to, _ := netip.AddrFromSlice(s.Dst)
		if isOurs(s) && !known[spiIn(s)] {
			k := dataplane.FormerKey{From: from.Unmap(), To: to.Unmap()}
			former[k] = append(former[k], s)
		}
	}
	return former
}

// isOurs reports whether the kernel has a key of flannel's tunnels, which have no mark and no interface.
// Without an algorithm it has only asked for one.
func isOurs(s netlink.XfrmState) bool {
	return s.Reqid == dataplane.ReqID && s.Proto == netlink.XFRM_PROTO_ESP && s.Mode == netlink.XFRM_MODE_TUNNEL &&
		s.Mark == nil && s.Ifid == 0 && (s.Aead != nil || s.Crypt != nil)
}

// dropFormer removes the former keys that the last look found.
func (d *Driver) dropFormer(k dataplane.FormerKey) error {
	found := d.former[k]
	if len(found) == 0 {
		return driver.ErrNotFound
	}
	var errs []error
	for _, s := range found {
		if err := d.dropKey(&s); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has just expired
			errs = append(errs, fmt.Errorf("remove a key of IPsec from the kernel: %w", err))
		}
	}
	return errors.Join(errs...)
}

// addSPIs adds the numbers of all keys that charon has listed for an IKE SA, in whatever state.
func addSPIs(known map[uint64]bool, sa *vici.Message) {
	children, _ := sa.Get("child-sas").(*vici.Message)
	if children == nil {
		return
	}
	for _, key := range children.Keys() {
		if m, ok := children.Get(key).(*vici.Message); ok {
			known[spiOf(m, "spi-in")] = true
			known[spiOf(m, "spi-out")] = true
		}
	}
}

// spis are the numbers that identify the two keys of a tunnel.
type spis struct{ in, out uint64 }

// installed returns the tunnels of a child that charon has given to the kernel.
func installed(sa *vici.Message, child string) []spis {
	children, _ := sa.Get("child-sas").(*vici.Message)
	if children == nil {
		return nil
	}
	var all []spis
	for _, key := range children.Keys() {
		m, _ := children.Get(key).(*vici.Message)
		if m == nil || m.Get("name") != child {
			continue
		}
		state, _ := m.Get("state").(string)
		if slices.Contains([]string{"INSTALLED", "REKEYING", "REKEYED", "UPDATING"}, state) {
			all = append(all, spis{in: spiOf(m, "spi-in"), out: spiOf(m, "spi-out")})
		}
	}
	return all
}

// spiOf reads a number that charon writes in hexadecimal digits.
func spiOf(m *vici.Message, name string) uint64 {
	text, _ := m.Get(name).(string)
	spi, _ := strconv.ParseUint(text, 16, 32) // 0 is no number of a key
	return spi
}

// initiate asks for a tunnel, and ends one that has lost its keys.
func (d *Driver) initiate(k dataplane.ConnKey) error {
	which := tunnelsOf(k)
	which["child"] = k.Child()
	if d.keyless[k] {
		if err := d.terminate(which); err != nil {
			return err
		}
	}
	return d.command("initiate", which)
}
