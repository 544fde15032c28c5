package specs_test

import (
	"context"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// wireguardEnv names the manifest that the chart makes for wireguard.
const wireguardEnv = "FLANNEL_LAB_CLUSTER_WIREGUARD"

// The commands are those of docs/kubernetes.md.
var _ = Describe("an upgrade", func() {
	It("to upstream and from it keeps each pod's address, and no packet is lost", func(ctx context.Context) {
		if backend := backendType(ctx); backend != "vxlan" || dualStack() {
			Skip("the routes that this spec expects are those of vxlan and IPv4, not of " + backend)
		}
		pods, before := echoPods(ctx), identity(ctx)
		expectNoLoss := traffic(ctx)

		kubectl(ctx, "apply", "-f", "upstream.yml")
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		for _, n := range kube.Nodes {
			// Upstream says that it is ready before it makes its routes.
			Eventually(func(g Gomega) {
				routes, err := n.Run(ctx, "ip", "route", "show", "dev", "flannel.1")
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(strings.Count(routes, "onlink")).To(Equal(2), routes)
				g.Expect(routes).NotTo(ContainSubstring("proto 102"))
			}).WithContext(ctx).Should(Succeed())
		}
		kubectl(ctx, "apply", "-f", manifest())
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		for _, n := range kube.Nodes {
			routes, err := n.Run(ctx, "ip", "route", "show", "dev", "flannel.1")
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(routes, "proto 102")).To(Equal(2), routes)
			rules, err := n.Run(ctx, "iptables-save")
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Count(rules, "-j FLANNEL-")).To(Equal(2), rules)
		}

		expectNoLoss()
		for i, pod := range echoPods(ctx) {
			Expect(pod.Status.PodIPs).To(Equal(pods[i].Status.PodIPs))
			Expect(pod.Status.ContainerStatuses[0].RestartCount).To(Equal(pods[i].Status.ContainerStatuses[0].RestartCount))
		}
		Expect(identity(ctx)).To(Equal(before))
	}, limit)

	It("to upstream's manifest with our image in place of both of upstream's, and back", func(ctx context.Context) {
		if backend := backendType(ctx); backend != "vxlan" || dualStack() {
			Skip("the manifest is for vxlan and IPv4, not for " + backend)
		}
		before := identity(ctx)
		expectNoLoss := traffic(ctx)
		DeferCleanup(func(ctx context.Context) { // also after a failure
			kubectl(ctx, "delete", "--ignore-not-found", "-n", "kube-flannel", "daemonset", "kube-flannel-ds")
			kubectl(ctx, "apply", "-f", manifest())
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		})
		kubectl(ctx, "delete", "-f", manifest())
		for _, n := range kube.Nodes {
			_, err := n.Run(ctx, "rm", "/opt/cni/bin/flannel", "/etc/cni/net.d/10-flannel.conflist")
			Expect(err).NotTo(HaveOccurred(), n.Name)
		}
		kubectl(ctx, "apply", "-f", "upstream-manifest.yml")
		Expect(kube.AwaitFlannel(ctx)).To(Succeed())
		expectFollowing(ctx)
		for _, n := range kube.Nodes {
			conf, err := n.Run(ctx, "cat", "/etc/cni/net.d/10-flannel.conflist")
			Expect(err).NotTo(HaveOccurred(), n.Name)
			Expect(conf).To(ContainSubstring(`"name": "cbr0"`), n.Name)
			out, err := n.Run(ctx, "sh", "-c", "CNI_COMMAND=VERSION /opt/cni/bin/flannel </dev/null")
			Expect(err).NotTo(HaveOccurred(), n.Name)
			Expect(out).To(ContainSubstring("supportedVersions"), n.Name)
		}
		Expect(identity(ctx)).To(Equal(before))
		expectNoLoss()
		kubectl(ctx, "delete", "pods", "-l", "app=echo") // the plugin and its configuration serve new pods
		awaitEcho(ctx)
		expectEveryPacket(ctx)
	}, limit)

	It("from one backend to wireguard by the chart's manifest, and back by its ConfigMap first, loses no packet",
		func(ctx context.Context) {
			file, from := wireguardManifest(ctx)
			former := networkText(ctx)
			expectNoLoss := traffic(ctx)
			kubectl(ctx, "apply", "-f", file)
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
			awaitBackend(ctx, "wireguard")
			expectKernelsWireGuard(ctx)
			// The manifest of the previous backend has no /dev/net/tun, which the daemons need until the change is over.
			writeNetwork(ctx, former)
			awaitBackend(ctx, from)
			kubectl(ctx, "apply", "-f", manifest())
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
			expectNoLoss()
		}, SpecTimeout(patience(8*time.Minute)), anyKernel)

	It("from one backend to wireguard, and back by its manifest in one step, which ends the update",
		func(ctx context.Context) {
			file, from := wireguardManifest(ctx)
			kubectl(ctx, "apply", "-f", file)
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
			awaitBackend(ctx, "wireguard")
			// The new pods have no /dev/net/tun, and cannot keep WireGuard in userspace.
			kubectl(ctx, "apply", "-f", manifest())
			Expect(kube.AwaitFlannel(ctx)).To(Succeed())
			awaitBackend(ctx, from)
			expectEveryPacket(ctx)
		}, SpecTimeout(8*time.Minute))
})

// expectKernelsWireGuard checks that the daemon of an emulated node has left WireGuard to its kernel. The kernel of the
// others may have none.
func expectKernelsWireGuard(ctx context.Context) {
	GinkgoHelper()
	for _, n := range kube.Nodes {
		if n.Emulated {
			devices, err := n.Run(ctx, "ip", "-brief", "link", "show", "type", "wireguard")
			Expect(err).NotTo(HaveOccurred())
			Expect(devices).To(ContainSubstring("flannel-wg"), n.Name)
		}
	}
}

// wireguardManifest returns the manifest for wireguard, and the present backend, from which a change leads there.
func wireguardManifest(ctx context.Context) (file, from string) {
	GinkgoHelper()
	file, from = os.Getenv(wireguardEnv), backendType(ctx)
	if file == "" || from == "wireguard" || from == "udp" {
		Skip("it needs another backend than " + from + ", and the manifest that make test-cluster makes for wireguard")
	}
	return file, from
}

// identity returns the properties of each node that peers and pods know: its record, and the
// index and MAC of its device.
func identity(ctx context.Context) map[string]string {
	GinkgoHelper()
	of := map[string]string{}
	for _, n := range kube.Nodes {
		device, err := n.Run(ctx, "sh", "-ec", "cat /sys/class/net/flannel.1/ifindex /sys/class/net/flannel.1/address; "+
			"cat /run/flannel/subnet.env")
		Expect(err).NotTo(HaveOccurred())
		of[n.Name] = device
		for key, value := range leaseOf(ctx, n.Name).Annotations {
			if strings.HasPrefix(key, annotation) {
				of[n.Name+" "+key] = value
			}
		}
	}
	return of
}

// awaitBackend waits until all nodes send to all peers by a backend, and keep no former one.
func awaitBackend(ctx context.Context, backend string) {
	GinkgoHelper()
	for _, n := range kube.Nodes {
		Eventually(func(g Gomega) {
			peers, err := flannelctl(ctx, n, "peers")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Count(peers, " "+backend+" ")).To(Equal(2), peers)
			status, err := flannelctl(ctx, n, "status")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status).NotTo(MatchRegexp("(?m)^change "))
		}).WithContext(ctx).Should(Succeed(), n.Name)
	}
}
