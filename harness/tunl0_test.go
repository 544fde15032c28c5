package harness_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/pace"
	"github.com/flanneld/flannel/tools/cleanup"
)

const (
	tunl0 = "tunl0" // the kernel's own tunnel, which takes packets that no other ipip tunnel takes
	ours  = "flannel.ipip"
)

// TestTunl0 runs the ipip backend beside the kernel's own tunl0, which the operator uses: it is up, with an address, an
// MTU and a route. Start, repair, stop and cleanup leave it as it is, and packets of pods come in by our tunnel.
func TestTunl0(t *testing.T) {
	RegisterTestingT(t)
	ctx, cancel := context.WithTimeout(t.Context(), pace.Scale(time.Minute))
	defer cancel()
	lab := labWithTunl0(ctx, t)
	before := map[*harness.Node]string{}
	for _, n := range lab.Nodes {
		_, err := n.Shell(ctx, `ip link set tunl0 mtu 1400 up
			ip addr add 10.99.0.1/32 dev tunl0
			ip route add 10.98.0.0/24 dev tunl0`)
		Expect(err).NotTo(HaveOccurred())
		before[n] = looks(ctx, n)
		Expect(n.Start()).To(Succeed())
	}
	untouched := func(when string) {
		for n, look := range before {
			Expect(looks(ctx, n)).To(Equal(look), "%s after %s", n, when)
		}
	}
	for _, n := range lab.Nodes {
		Expect(n.WaitReady(ctx)).To(Succeed())
		_, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
	reach := func() {
		for i, from := range lab.Pods() {
			to := lab.Pods()[1-i]
			Eventually(func() error { return pingPreserved(ctx, from, to, cidr.V4) }).WithContext(ctx).Should(Succeed())
		}
	}
	reach()
	untouched("start")
	for _, n := range lab.Nodes {
		Expect(received(n, ours)).To(BeNumerically(">", 0), "packets to %s", n)
		Expect(received(n, tunl0)).To(BeZero(), "packets to %s", n)
	}

	node := lab.Nodes[0]
	Expect(node.DeleteLink(ours)).To(Succeed())
	Eventually(func() error { _, err := node.Netlink().LinkByName(ours); return err }).WithContext(ctx).Should(Succeed())
	reach()
	untouched("repair")

	for _, n := range lab.Nodes {
		Expect(n.Stop(ctx)).To(Succeed())
	}
	untouched("stop")
	for _, n := range lab.Nodes {
		result := clean(ctx, n, cleanup.Options{SubnetFiles: []string{n.SubnetFile()}, StateFiles: []string{n.StateFile()},
			CNIData: "/nowhere", CNIConf: "/nowhere", CNIBin: "/nowhere"}, false)
		Expect(result.Trouble()).To(BeFalse(), "%+v", result)
		_, err := n.Netlink().LinkByName(ours)
		Expect(err).To(BeAssignableToTypeOf(netlink.LinkNotFoundError{}))
	}
	untouched("cleanup")
}

// labWithTunl0 builds a lab of nodes with a tunl0. The machine of make test-vm otherwise keeps it out of
// namespaces; the settings of another host stay as they are.
func labWithTunl0(ctx context.Context, t *testing.T) *harness.Lab {
	t.Helper()
	if os.Getenv("WORLD") == "vm" {
		onlyForInit := func(value string) {
			script := "modprobe ipip && echo " + value + " > /proc/sys/net/core/fb_tunnels_only_for_init_net"
			said, err := exec.Command("nsenter", "--net=/proc/1/ns/net", "sh", "-c", script).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s", said)
		}
		onlyForInit("0")
		t.Cleanup(func() { onlyForInit("1") })
	}
	daemon, err := harness.BuildDaemon(ctx)
	Expect(err).NotTo(HaveOccurred())
	lab, err := harness.New(ctx, harness.Options{
		Nodes: 2, Daemon: daemon, Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"ipip"}}`,
	})
	Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { Expect(lab.Close()).To(Succeed()) })
	if _, err := lab.Nodes[0].Netlink().LinkByName(tunl0); err != nil {
		if os.Getenv("WORLD") == "vm" {
			t.Fatal(err)
		}
		t.Skipf("namespaces of this host have no tunl0: %v", err)
	}
	return lab
}

// looks returns the text of a node's tunl0, its addresses and its routes.
func looks(ctx context.Context, n *harness.Node) string {
	out, err := n.Shell(ctx, `ip -d -o link show dev tunl0
		ip -o addr show dev tunl0
		ip route show table all dev tunl0`)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}

// received returns how many packets came in by a link of a node.
func received(n *harness.Node, link string) uint64 {
	l, err := n.Netlink().LinkByName(link)
	Expect(err).NotTo(HaveOccurred())
	return l.Attrs().Statistics.RxPackets
}
