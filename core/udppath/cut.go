package udppath

// cut describes how to cut a packet that the kernel left whole: one header before
// each piece of the payload.
type cut struct {
	ip     int // length of the IPv4 header
	header int // length of all headers
	size   int // bytes of payload in each but the last
	proto  byte
}

// cutOf returns how to cut a packet with a valid IPv4 header. It trusts the vnet
// header's type and size, but not its length of headers: a forwarded packet has
// the length of another link.
func cutOf(ip []byte, header int, v Vnet) (cut, Reason) {
	c := cut{ip: header, size: int(v.GSOSize)}
	switch v.GSOType {
	case VnetGSOTCPv4, VnetGSOTCPv4 | VnetGSOECN:
		if len(ip) < header+minTCP {
			return cut{}, BadOffload
		}
		offset := int(ip[header+12]>>4) * 4
		if offset < minTCP {
			return cut{}, BadOffload
		}
		c.proto, c.header = protoTCP, header+offset
	case VnetGSOUDP:
		c.proto, c.header = protoUDP, header+sizeUDP
	default:
		return cut{}, BadOffload
	}
	if ip[9] != c.proto || fragmented(ip) || c.size == 0 || len(ip) <= c.header {
		return cut{}, BadOffload
	}
	return c, Passed
}

// checksumFits reports whether the checksum to complete lies behind the IPv4
// header and within the packet.
func checksumFits(ip []byte, header int, v Vnet) bool {
	return int(v.CsumStart) >= header && int(v.CsumStart)+int(v.CsumOffset)+2 <= len(ip)
}

// wireSize checks the vnet header of a packet, and returns the size of the
// largest packet that the cut makes.
func wireSize(ip []byte, header int, v Vnet) (int, Reason) {
	if v.GSOType != VnetGSONone {
		c, reason := cutOf(ip, header, v)
		return min(len(ip), c.header+c.size), reason
	}
	if v.Flags&VnetNeedsCsum != 0 && !checksumFits(ip, header, v) {
		return 0, BadOffload
	}
	return len(ip), Passed
}
