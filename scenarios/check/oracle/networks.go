package oracle

import (
	"slices"
)

// spare notes the host's other networks, and takes their devices out of those that may be left over. The own
// devices stay, even if the config of another network names them: the host refuses that one.
func (d *derivation) spare() {
	own := devicesOf(d.net)
	for _, text := range d.host.Beside {
		n, err := parse(text)
		if err != nil {
			continue
		}
		for _, p := range n.of {
			if p.IsValid() {
				d.beside = append(d.beside, p)
			}
		}
		for _, name := range devicesOf(n) {
			if !slices.Contains(own, name) {
				delete(d.devices, name)
			}
		}
	}
}

// devicesOf returns the devices that a network may have.
func devicesOf(n network) []string {
	switch n.backend {
	case "vxlan":
		return vxlanDevices(n)
	case "udp":
		return udpDevices(n)
	case "ipip":
		return []string{ipip}
	case "wireguard":
		return wireguards[:]
	}
	return nil
}
