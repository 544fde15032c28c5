package harness_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// Three nodes get their leases from two servers, over TLS with certificates on both
// sides. The first server ends, then a node restarts.
var _ = Describe("servers of leases in a lab", func() {
	It("keeps traffic and changes going when one of two servers ends", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 5, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		nodes, servers := lab.Nodes[:3], lab.Nodes[3:]
		secrets := newPairs()
		remote := "--remote="
		for i, s := range servers {
			at := net.JoinHostPort(s.Underlay(cidr.V4).Addr().String(), "8888")
			remote += []string{"", ","}[i] + at
			Expect(s.Start(append(secrets.flags(s), "--listen="+at)...)).To(Succeed())
			Expect(s.WaitReady(ctx)).To(Succeed())
		}
		for _, n := range nodes {
			Expect(n.Start(append(secrets.flags(n), remote)...)).To(Succeed())
		}
		for _, n := range nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			_, err := n.AddPod(ctx)
			Expect(err).NotTo(HaveOccurred())
		}
		reach := func() {
			GinkgoHelper()
			for _, from := range lab.Pods() {
				for _, to := range lab.Pods() {
					Eventually(func() error { return pingPreserved(ctx, from, to, cidr.V4) }).WithContext(ctx).Should(Succeed())
				}
			}
		}
		reach()
		Expect(servers[0].Stop(ctx)).To(Succeed())
		Expect(servers[0].ExitStatus().ExitCode()).To(BeZero())
		reach()
		// A node restarts while one server is away.
		Expect(nodes[0].Stop(ctx)).To(Succeed())
		Expect(nodes[0].Start(append(secrets.flags(nodes[0]), remote)...)).To(Succeed())
		Expect(nodes[0].WaitReady(ctx)).To(Succeed())
		reach()
		Expect(servers[0].Start(append(secrets.flags(servers[0]),
			"--listen="+net.JoinHostPort(servers[0].Underlay(cidr.V4).Addr().String(), "8888"))...)).To(Succeed())
		Expect(servers[0].WaitReady(ctx)).To(Succeed())
		Expect(servers[1].Stop(ctx)).To(Succeed())
		for _, n := range nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		reach()
	}, limit)
})

// Two daemons run two networks each, with leases from one server. Its clients have certificates.
// One daemon has the networks in a list, the other runs those that the server has.
var _ = Describe("a server of several networks in a lab", func() {
	It("serves each of them to one daemon", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 3, Daemon: daemon, LeaseTTL: time.Minute})
		Expect(lab.Store.SetConfigOf(ctx, "blue", blueConfig)).To(Succeed())
		Expect(lab.Store.SetConfigOf(ctx, "green",
			`{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan","VNI":2}}`)).To(Succeed())
		nodes, server := lab.Nodes[:2], lab.Nodes[2]
		secrets := newPairs()
		at := net.JoinHostPort(server.Underlay(cidr.V4).Addr().String(), "8888")
		serve := append(secrets.flags(server), "--listen="+at)
		Expect(server.Start(serve...)).To(Succeed())
		Expect(server.WaitReady(ctx)).To(Succeed())
		start := func(n *harness.Node, which string) {
			GinkgoHelper()
			// Nothing listens at this address of etcd, so all leases come from the server.
			Expect(n.Start(append(secrets.flags(n), which, "--remote="+at,
				"--etcd-endpoints=http://127.0.0.1:1")...)).To(Succeed())
		}
		start(nodes[0], "--networks=blue,green")
		start(nodes[1], "--watch-networks")
		reach := func(pods []*harness.Pod) {
			GinkgoHelper()
			for i, from := range pods {
				Eventually(func() error {
					return pingPreserved(ctx, from, pods[1-i], cidr.V4)
				}).WithContext(ctx).Should(Succeed())
			}
		}
		pods := map[string][]*harness.Pod{}
		for _, n := range nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			for _, network := range []string{"blue", "green"} {
				p, err := n.AddPodOf(ctx, network)
				Expect(err).NotTo(HaveOccurred())
				pods[network] = append(pods[network], p)
			}
		}
		reach(pods["blue"])
		reach(pods["green"])

		By("restarting the server")
		Expect(server.Stop(ctx)).To(Succeed())
		reach(pods["blue"])
		Expect(server.Start(serve...)).To(Succeed())
		for _, n := range nodes {
			Expect(n.WaitReady(ctx)).To(Succeed())
			Expect(n.Log()).To(And(ContainSubstring("network blue: lease-acquired:"),
				ContainSubstring("network green: lease-acquired:"), ContainSubstring(at+"/v1/green")))
		}
		reach(pods["green"])

		By("deleting the config of one network, which the nodes then remove")
		Expect(lab.Store.DeleteKey(ctx, harness.ConfigKeyOf("blue"))).To(Succeed())
		for _, n := range nodes {
			Eventually(n.SubnetFileOf("blue")).WithContext(ctx).ShouldNot(BeAnExistingFile())
			Eventually(func() (string, error) { return n.Shell(ctx, "ip -o link") }).WithContext(ctx).
				ShouldNot(ContainSubstring("flannel.1:"))
		}
		// The first node has it in its list, and waits for a config. The second one has only what is there.
		Expect(nodes[0].Await(ctx, "blue alone not to be ready", func() (bool, error) {
			blue, _, err := nodes[0].Get(ctx, "/readyz?network=blue")
			if err != nil {
				return false, err
			}
			green, _, err := nodes[0].Get(ctx, "/readyz?network=green")
			return blue == http.StatusServiceUnavailable && green == http.StatusOK, err
		})).To(Succeed())
		Expect(nodes[1].WaitReady(ctx)).To(Succeed())
		reach(pods["green"])

		By("restarting both while the network is away, and giving it a config again")
		Expect(server.Stop(ctx)).To(Succeed())
		Expect(nodes[1].Stop(ctx)).To(Succeed())
		Expect(server.Start(serve...)).To(Succeed())
		start(nodes[1], "--watch-networks")
		Expect(lab.Store.SetConfigOf(ctx, "blue", blueConfig)).To(Succeed())
		for _, n := range nodes {
			Eventually(n.SubnetFileOf("blue")).WithContext(ctx).Should(BeAnExistingFile())
			Expect(n.WaitReady(ctx)).To(Succeed())
		}
		reach(pods["green"])
	}, limit)
})

// pairs are certificates of one authority, in one folder.
type pairs struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPairs() *pairs {
	GinkgoHelper()
	p := &pairs{dir: GinkgoT().TempDir()}
	p.issue("ca", x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return p
}

// flags returns the flags of a host, with a certificate for its address.
func (p *pairs) flags(n *harness.Node) []string {
	GinkgoHelper()
	p.issue(n.Name, x509.Certificate{IPAddresses: []net.IP{n.Underlay(cidr.V4).Addr().AsSlice()}})
	file := func(name string) string { return filepath.Join(p.dir, name) }
	return []string{"--remote-cafile=" + file("ca.pem"), "--remote-certfile=" + file(n.Name+".pem"),
		"--remote-keyfile=" + file(n.Name+"-key.pem")}
}

// issue writes NAME.pem and NAME-key.pem. The first certificate signs all.
func (p *pairs) issue(name string, c x509.Certificate) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	Expect(err).NotTo(HaveOccurred())
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if p.cert == nil {
		p.cert, p.key = &c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, p.cert, &key.PublicKey, p.key)
	Expect(err).NotTo(HaveOccurred())
	secret, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	for file, block := range map[string]*pem.Block{
		name + ".pem":     {Type: "CERTIFICATE", Bytes: der},
		name + "-key.pem": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		Expect(os.WriteFile(filepath.Join(p.dir, file), pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
}
