package oracle

import "github.com/flanneld/flannel/core/cidr"

// spare takes the devices of the host's other networks out of those that may be left over.
func (d *derivation) spare() {
	for _, text := range d.host.Beside {
		n, err := parse(text)
		if err != nil {
			continue
		}
		names := map[string][]string{
			"vxlan": {device(cidr.V4, n.options.VNI), device(cidr.V6, n.options.VNI)},
			"udp":   {tun}, "ipip": {ipip}, "wireguard": wireguards[:],
		}[n.backend]
		for _, name := range names {
			delete(d.devices, name)
		}
	}
}
