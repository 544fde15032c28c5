package kernel

import "net/netip"

// Readable is the packet of a frame that each host on the wire can read: the one inside VXLAN, a datagram of the
// udp backend or an IPIP tunnel, or the frame's own.
type Readable struct {
	Src, Dst netip.Addr
	In       string // "vxlan", "udp", "ipip", or "" for a packet that no tunnel carries
}

// Read returns the readable packets of a frame, outermost first. It returns none for a frame that is not IP, and for
// later fragments, which hold no addresses of an inner packet, only the outer one.
func Read(frame []byte) []Readable {
	_, packet, err := parseEther(frame)
	if err != nil {
		return nil
	}
	return readPacket(packet, "")
}

func readPacket(packet []byte, in string) []Readable {
	h, payload, err := parseIP(packet)
	if err != nil {
		return nil
	}
	all := []Readable{{Src: h.src, Dst: h.dst, In: in}}
	if in != "" || h.offset > 0 {
		return all
	}
	if h.proto == protoIPIP {
		return append(all, readPacket(payload, "ipip")...)
	}
	if h.proto != protoUDP || len(payload) < udpLen {
		return all
	}
	body := payload[udpLen:] // of a fragment, the checksum does not fit
	if _, inner, err := parseVXLAN(body); err == nil {
		if _, packet, err := parseEther(inner); err == nil {
			if read := readPacket(packet, "vxlan"); read != nil {
				return append(all, read...)
			}
		}
	}
	return append(all, readPacket(body, "udp")...)
}
