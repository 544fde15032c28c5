package harness_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// wireguardPSK is the pre-shared key of these tests.
const wireguardPSK = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

var _ = Describe("the wireguard backend in the daemon's process", func() {
	It("sends pods' packets only in UDP to port 51820, and keeps its keys to itself", func(ctx context.Context) {
		requireTUN()
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, DaemonArgs: []string{"-v=6"},
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard","Implementation":"userspace","PSK":"` +
				wireguardPSK + `"}}`})
		uplink := listenOn(lab.Nodes[0], "eth0")
		for _, n := range lab.Nodes {
			Expect(n.Start()).To(Succeed())
		}
		for _, n := range lab.Nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		pod, peer := lab.Pods()[0], lab.Pods()[1]
		awaitPing(ctx, pod, peer)
		awaitPing(ctx, peer, pod)
		_, err = pod.Transfer(ctx, peer, cidr.V4, 1<<20)
		Expect(err).NotTo(HaveOccurred())
		expectNoKeys(ctx, lab)

		By("having no process that encrypts")
		Expect(lab.Nodes[0].Kill()).To(Succeed())
		Expect(pingPreserved(ctx, pod, peer, cidr.V4)).To(MatchError(harness.ErrNoReply))
		expectEncrypted(uplink)
	}, limit)
})

// expectNoKeys searches for private keys and the pre-shared key in what the daemons
// publish, say and write, except the key files.
func expectNoKeys(ctx context.Context, lab *harness.Lab) {
	GinkgoHelper()
	psk, err := base64.StdEncoding.DecodeString(wireguardPSK)
	Expect(err).NotTo(HaveOccurred())
	secrets := [][]byte{psk}
	for _, n := range lab.Nodes {
		text, err := os.ReadFile(n.KeyFile())
		Expect(err).NotTo(HaveOccurred())
		key, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
		Expect(err).NotTo(HaveOccurred())
		secrets = append(secrets, key)
		state, err := os.ReadFile(n.StateFile())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state)).NotTo(Or(ContainSubstring(string(key)), ContainSubstring(string(bytes.TrimSpace(text)))))
	}
	expectUnsaid(ctx, lab, secrets...)
}

// ringFrames and ringFrame are the number of frames that a ring holds, and the bytes of each with its header; the
// rest of a longer frame is not kept. The test needs about 2,000 frames.
const (
	ringFrames = 16384
	ringFrame  = 2048
	ringBlock  = 1 << 20
)

// frameRing holds all frames of a device from its creation on. Unlike a socket's buffer, it may have any
// size without privileges of the first user namespace.
type frameRing struct {
	fd     int
	memory []byte
}

// listenOn returns a ring that keeps each frame on a device.
func listenOn(n *harness.Node, device string) (r frameRing) {
	GinkgoHelper()
	Expect(n.Do(func() error {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // 0: no frame before Bind
		if err != nil {
			return err
		}
		DeferCleanup(unix.Close, r.fd)
		const size = ringFrames * ringFrame
		err = errors.Join(
			unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
			unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq{
				Block_size: ringBlock, Block_nr: size / ringBlock, Frame_size: ringFrame, Frame_nr: ringFrames}))
		if err != nil {
			return err
		}
		r.memory, err = unix.Mmap(r.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		DeferCleanup(unix.Munmap, r.memory)
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		return unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	})).To(Succeed())
	return r
}

// frames returns what the ring holds, and fails if a frame found no room in it.
func (r frameRing) frames() (all [][]byte) {
	GinkgoHelper()
	for slot := range slices.Chunk(r.memory, ringFrame) { // struct tpacket2_hdr, and the frame
		if binary.NativeEndian.Uint32(slot)&unix.TP_STATUS_USER == 0 {
			break
		}
		length, start := binary.NativeEndian.Uint32(slot[8:]), binary.NativeEndian.Uint16(slot[12:])
		all = append(all, slot[start:uint32(start)+length])
	}
	stats, err := unix.GetsockoptTpacketStats(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	Expect(err).NotTo(HaveOccurred())
	Expect(stats.Drops).To(BeZero(), "frames for which the ring had no room")
	return all
}

// expectEncrypted looks at all frames that a ring has kept. They must be WireGuard's, or
// belong to the underlay itself: neighbour discovery, and connections to the datastore.
func expectEncrypted(r frameRing) {
	GinkgoHelper()
	tunnelled := 0
	for _, frame := range r.frames() {
		Expect(frame).NotTo(ContainSubstring("flannel lab")) // the data of the lab's pings
		kind := kindOf(frame)
		Expect(kind).To(BeElementOf("udp 51820", "tcp 2379", "arp", "ipv6"), "%x", frame)
		if kind == "udp 51820" {
			tunnelled++
		}
	}
	Expect(tunnelled).To(BeNumerically(">", 8)) // two handshakes of two, two pings of two
}

// kindOf says what is in an Ethernet frame. Of two ports it names the smaller.
func kindOf(frame []byte) string {
	const header = 14
	if len(frame) < header {
		return "short"
	}
	protocol := binary.BigEndian.Uint16(frame[12:])
	if name, ok := map[uint16]string{unix.ETH_P_ARP: "arp", unix.ETH_P_IPV6: "ipv6"}[protocol]; ok {
		return name
	}
	if protocol != unix.ETH_P_IP {
		return fmt.Sprintf("protocol %#x", protocol)
	}
	ip := frame[header:]
	inner := ip[int(ip[0]&15)*4:]
	port := min(binary.BigEndian.Uint16(inner), binary.BigEndian.Uint16(inner[2:]))
	switch ip[9] {
	case unix.IPPROTO_UDP:
		return fmt.Sprintf("udp %d", port)
	case unix.IPPROTO_TCP:
		return fmt.Sprintf("tcp %d", port)
	}
	return fmt.Sprintf("protocol %d of IPv4", ip[9])
}
