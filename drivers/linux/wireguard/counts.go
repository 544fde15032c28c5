package wireguard

import (
	"fmt"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/device"

	"github.com/flanneld/flannel/core/dataplane"
)

// count says what became of a packet of a pod.
type count uint8

const (
	carried       count = iota // sent to a peer, or given to the TUN device
	truncated                  // fewer bytes than a header
	badOffload                 // the kernel's description does not fit the packet
	tooBig                     // larger than the buffers
	notIP                      // neither IPv4 nor IPv6
	spoofed                    // from a peer, whose allowed IPs do not cover the source
	deviceRefused              // by the TUN device, most often because it is down
	socketRefused              // by the socket, for example because the kernel has no route to the peer
	numCounts     int   = iota
)

var countNames = [numCounts]string{
	"carried", "truncated", "bad_offload", "too_big", "not_ip", "spoofed", "device_refused", "socket_refused",
}

// counts hold numbers of packets. Several goroutines add to them, a batch at a time.
type counts [numCounts]atomic.Uint64

func (c *counts) add(what count, n int) {
	if n > 0 {
		c[what].Add(uint64(n))
	}
}

// logger returns a logger for the library, which tells of some drops by its log alone.
// It keeps nothing of the texts.
func (c *counts) logger() *device.Logger {
	return &device.Logger{Errorf: device.DiscardLogf, Verbosef: func(format string, _ ...any) {
		switch format {
		case "IPv4 packet with disallowed source address from %v", "IPv6 packet with disallowed source address from %v":
			c.add(spoofed, 1)
		case "Packet with invalid IP version from %v", "Received packet with unknown IP version":
			c.add(notIP, 1)
		}
	}}
}

// isData reports whether an encrypted packet carries a packet of a pod. It is no
// handshake and no keepalive.
func isData(packet []byte) bool {
	return len(packet) > device.MessageKeepaliveSize && packet[0] == device.MessageTransportType
}

// dataIn returns how many of the packets carry a packet of a pod.
func dataIn(packets [][]byte) (n int) {
	for _, p := range packets {
		if isData(p) {
			n++
		}
	}
	return n
}

// Running says how the device carries packets, and how many it has carried and dropped.
// The library tells nothing of packets that it drops for lack of a session, nor of those that
// it cannot decrypt, so they are not among them.
func (d *Device) Running() dataplane.Running {
	r := dataplane.Running{Tier: "gso", Drops: map[string]uint64{}}
	what := "the kernel has every feature"
	switch {
	case d.bind.old.Load():
		r.Tier, what = "plain", "the kernel does not split messages (UDP_SEGMENT), so packets are sent one by one"
	case !d.queue.uso:
		what = "the kernel leaves TCP whole, and not UDP"
	}
	r.Reason = fmt.Sprintf("WireGuard runs in this process; %s", what)
	for i := range d.counts {
		number := d.counts[i].Load()
		if count(i) == carried {
			r.Carried = number
			continue
		}
		r.Drops[countNames[i]] = number
	}
	return r
}
