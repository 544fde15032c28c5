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

// listenOn returns a socket that keeps each frame on a device.
func listenOn(n *harness.Node, device string) (fd int) {
	GinkgoHelper()
	Expect(n.Do(func() (err error) {
		link, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return err
		}
		DeferCleanup(unix.Close, fd)
		const room = 64 << 20
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	})).To(Succeed())
	return fd
}

// expectEncrypted reads all frames that a socket has kept. They must be WireGuard's, or
// belong to the underlay itself: neighbour discovery, and connections to the datastore.
func expectEncrypted(fd int) {
	GinkgoHelper()
	buf := make([]byte, 1<<17)
	tunnelled := 0
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		frame := buf[:n]
		Expect(frame).NotTo(ContainSubstring("flannel lab")) // the data of the lab's pings
		kind := kindOf(frame)
		Expect(kind).To(BeElementOf("udp 51820", "tcp 2379", "arp", "ipv6"), "%x", frame)
		if kind == "udp 51820" {
			tunnelled++
		}
	}
	stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	Expect(err).NotTo(HaveOccurred())
	Expect(stats.Drops).To(BeZero(), "frames for which the socket had no room")
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
