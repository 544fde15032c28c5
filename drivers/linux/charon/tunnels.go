package charon

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/strongswan/govici/vici"

	"github.com/flanneld/flannel/core/dataplane"
)

// observeTunnels adds the tunnels that charon has and whose keys are in the kernel.
// Charon does not notice when another program removes them.
func (d *Driver) observeTunnels(state *dataplane.State) error {
	sas, err := d.session.StreamedCommandRequest("list-sas", "list-sa", nil)
	if err != nil {
		return fmt.Errorf("list-sas: %w", err)
	}
	tunnels := map[dataplane.ConnKey][]spis{}
	for _, m := range sas {
		for _, name := range m.Keys() {
			k, ours := dataplane.ParseConnName(name)
			if section, ok := m.Get(name).(*vici.Message); ours && ok {
				tunnels[k] = append(tunnels[k], installed(section, k.Child())...)
			}
		}
	}
	d.keyless = map[dataplane.ConnKey]bool{}
	if len(tunnels) == 0 {
		return nil
	}
	present, err := d.kernelSPIs()
	if err != nil {
		return err
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

// kernelSPIs returns the numbers of the ESP keys in the kernel.
func (d *Driver) kernelSPIs() (map[uint64]bool, error) {
	states, err := d.kernelKeys()
	if err != nil {
		return nil, fmt.Errorf("read the keys of IPsec: %w", err)
	}
	present := map[uint64]bool{}
	for _, s := range states {
		present[uint64(uint32(s.Spi))] = true
	}
	return present, nil
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
