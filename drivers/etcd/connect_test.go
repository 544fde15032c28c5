package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gleak"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

const ms = time.Millisecond

var _ = Describe("wrong options", func() {
	DescribeTable("are errors at once, and name the flag",
		func(o Options, want string) {
			if o.Endpoints == nil {
				o.Endpoints = []string{"http://127.0.0.1:2379"}
			}
			_, err := Open(context.Background(), o)
			Expect(err).To(MatchError(want))
		},
		Entry("no endpoint", Options{Endpoints: []string{}}, "--etcd-endpoints: none given"),
		Entry("no URL", Options{Endpoints: []string{"http://[::1"}},
			"--etcd-endpoints: entry 1: not a URL: missing ']' in host"),
		Entry("a space", Options{Endpoints: []string{"http://a:1", " http://b:1"}},
			"--etcd-endpoints: entry 2: not a URL: first path segment in URL cannot contain colon"),
		Entry("no scheme", Options{Endpoints: []string{"etcd.example"}},
			`--etcd-endpoints: "etcd.example": want http://HOST:PORT or https://HOST:PORT`),
		Entry("another scheme", Options{Endpoints: []string{"ftp://a:1"}},
			`--etcd-endpoints: "ftp://a:1": want http://HOST:PORT or https://HOST:PORT`),
		Entry("a path", Options{Endpoints: []string{"http://a:1/v2"}},
			`--etcd-endpoints: "http://a:1/v2": want just http://HOST:PORT`),
		Entry("no host", Options{Endpoints: []string{"https://"}},
			`--etcd-endpoints: "https://": want just https://HOST:PORT`),
		Entry("two schemes", Options{Endpoints: []string{"http://a:1", "https://a:1"}},
			`--etcd-endpoints: "https://a:1": cannot be mixed with http endpoints`),
		Entry("a secret in the URL", Options{Endpoints: []string{"http://me:secret@a:1"}},
			"--etcd-endpoints: a URL holds a user; give it as --etcd-username and --etcd-password"),
		Entry("user without password", Options{Username: "me"},
			"--etcd-password: missing, though --etcd-username is given"),
		Entry("password without user", Options{Password: "secret"},
			"--etcd-username: missing, though --etcd-password is given"),
		Entry("negative timeout", Options{Timeout: -1}, "etcd: negative timeout"),
		Entry("certificate without key", Options{CertFile: "cert"},
			"--etcd-keyfile: missing, though --etcd-certfile is given"),
		Entry("key without certificate", Options{KeyFile: "key"},
			"--etcd-certfile: missing, though --etcd-keyfile is given"),
		Entry("no such pair", Options{CertFile: "/nonexistent/c", KeyFile: "/nonexistent/k"},
			"--etcd-certfile, --etcd-keyfile: open /nonexistent/c: no such file or directory"),
		Entry("no such CA file", Options{CAFile: "/nonexistent/ca"},
			"--etcd-cafile: open /nonexistent/ca: no such file or directory"),
		Entry("no CA in the file", Options{CAFile: "connect_test.go"},
			"--etcd-cafile: connect_test.go holds no certificate in PEM form"),
	)
})

var _ = Describe("an unreachable etcd", func() {
	It("does not block Open; the view says why (E14)", func() {
		p := newProxy(shared.Endpoints()[0])
		p.listener.Close()
		s := open(Options{Endpoints: []string{p.endpoint()}, Timeout: 300 * ms})
		Eventually(s.View).Should(HaveField("Err", MatchError(ContainSubstring("connection refused"))))
	})

	DescribeTable("does not block calls that never get an answer (E14)",
		func(ctx SpecContext, username string) {
			p := newProxy(shared.Endpoints()[0])
			p.blackhole()
			o := Options{Endpoints: []string{p.endpoint()}, Timeout: 200 * ms, Prefix: newPrefix()}
			if username != "" {
				o.Username, o.Password = username, "secret"
			}
			s := open(o)
			_, err := s.Create(ctx, key("10.5.1.0-24"), attrs("192.0.2.1"), lifetime)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			g := lease.Grant{Lease: lease.Lease{Key: key("10.5.1.0-24"), ModRevision: 5, ID: 7}}
			_, err = s.Renew(ctx, g)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			_, err = s.Update(ctx, g, attrs("192.0.2.1"), lifetime)
			Expect(err).To(MatchError(context.DeadlineExceeded))
			Expect(s.Release(ctx, g)).To(MatchError(context.DeadlineExceeded))
			Eventually(s.View).Should(HaveField("Err", MatchError(context.DeadlineExceeded)))
		},
		Entry("without a password", ""),
		Entry("with a password, which needs etcd even to connect", "me"),
	)

	It("is used as soon as it is there", func(ctx SpecContext) {
		p := newProxy(shared.Endpoints()[0])
		p.cut()
		o := options(shared)
		o.Endpoints, o.Timeout = []string{p.endpoint()}, 300*ms
		s := open(o)
		Eventually(s.View).Should(HaveField("Err", MatchError(context.DeadlineExceeded)))
		p.heal()
		eventuallySynced(s)
		_, err := s.Create(ctx, key("10.5.1.0-24"), attrs("192.0.2.1"), lifetime)
		Expect(err).NotTo(HaveOccurred())
	})

	It("is named in the log once for each reason, not at every attempt", func() {
		log := gbytes.NewBuffer()
		p := newProxy(shared.Endpoints()[0])
		p.listener.Close()
		s, err := Open(context.Background(), Options{
			Endpoints: []string{p.endpoint()}, Timeout: 50 * ms,
			Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		Expect(err).NotTo(HaveOccurred())
		const attempts = 4 // each changes the view
		for range attempts {
			Eventually(s.Changed()).Should(Receive())
		}
		s.Close()
		// On a busy machine an attempt may end before gRPC knows that the server refuses it.
		reasons := regexp.MustCompile(`msg="not following etcd" .*`).FindAllString(string(log.Contents()), -1)
		Expect(len(reasons)).To(And(BeNumerically(">", 0), BeNumerically("<", attempts)), "%q", reasons)
		Expect(slices.Compact(slices.Sorted(slices.Values(reasons)))).To(HaveLen(len(reasons)))
	})
})

var _ = Describe("Close", func() {
	It("ends all goroutines, whatever they wait for", func(ctx SpecContext) {
		p := newProxy(shared.Endpoints()[0])
		o := options(shared)
		o.Endpoints, o.Heartbeat = []string{p.endpoint()}, 20*ms
		Eventually(clientGoroutines).Should(BeEmpty(), "goroutines of former tests")
		following, err := Open(context.Background(), o)
		Expect(err).NotTo(HaveOccurred())
		eventuallySynced(following)
		Expect(clientGoroutines()).NotTo(BeEmpty())
		_, err = following.Create(ctx, key("10.5.1.0-24"), attrs("192.0.2.1"), lifetime)
		Expect(err).NotTo(HaveOccurred())
		_, err = following.Create(ctx, key("10.5.1.0-24"), attrs("192.0.2.1"), lifetime)
		Expect(err).To(MatchError(lease.ErrConflict))
		p.blackhole()
		o.Username, o.Password = "me", "secret"
		connecting, err := Open(context.Background(), o)
		Expect(err).NotTo(HaveOccurred())

		following.Close()
		connecting.Close()
		Expect(gleak.Goroutines()).NotTo(ContainElement(HaveField("Backtrace", ContainSubstring("(*Store).run("))))
		following.Close() // a second call does no harm
		Eventually(clientGoroutines).Should(BeEmpty())
		_, err = following.Renew(ctx, lease.Grant{Lease: lease.Lease{Key: key("10.5.1.0-24"), ID: 7}})
		Expect(err).To(MatchError(context.Canceled))
		Expect(following.View().Synced).To(BeFalse())
	})

	It("happens when the context ends, too", func() {
		ctx, cancel := context.WithCancel(context.Background())
		s, err := Open(ctx, options(shared))
		Expect(err).NotTo(HaveOccurred())
		eventuallySynced(s)
		cancel()
		Eventually(s.View).Should(And(HaveField("Synced", false), HaveField("Err", MatchError("store is closed"))))
		s.Close()
	})
})

// clientGoroutines counts the goroutines of stores and their connections. The
// server in this process has its own, which vary.
func clientGoroutines() []gleak.Goroutine {
	return slices.DeleteFunc(gleak.Goroutines(), func(g gleak.Goroutine) bool {
		return !slices.ContainsFunc([]string{
			"drivers/etcd.(*Store)", "grpc.(*ClientConn)", "grpc.(*addrConn)", "transport.(*http2Client)", "etcd/client/v3",
		}, func(s string) bool { return strings.Contains(g.Backtrace, s) })
	})
}

var _ = Describe("TLS", func() {
	var (
		ca         *authority
		eo         embedded.Options
		caFile     string
		cert, pkey string
	)
	BeforeEach(func() {
		ca = newAuthority()
		caFile = writeFile("ca.pem", ca.pem())
		cert, pkey = ca.pair("server")
		eo = embedded.Options{
			Dir: GinkgoT().TempDir(), ListenClient: []string{"https://127.0.0.1:0"},
			CertFile: cert, KeyFile: pkey,
		}
	})

	It("trusts a CA without a key pair (E14)", func(ctx SpecContext) {
		o := options(startServer(ctx, eo))
		o.CAFile = caFile
		openSynced(o)
	})

	It("trusts no other server, and says so", func(ctx SpecContext) {
		o := options(startServer(ctx, eo))
		o.Timeout = 500 * ms
		unknown := MatchError(ContainSubstring("certificate signed by unknown authority"))
		Eventually(open(o).View).Should(HaveField("Err", unknown))
		o.CAFile = writeFile("other.pem", newAuthority().pem())
		Eventually(open(o).View).Should(HaveField("Err", unknown))
	})

	It("shows its key pair to a server that asks for one", func(ctx SpecContext) {
		eo.ClientCAFile = caFile
		o := options(startServer(ctx, eo))
		o.CAFile, o.Timeout = caFile, 500*ms
		Eventually(open(o).View).Should(HaveField("Err", MatchError(ContainSubstring("certificate required"))))
		o.CertFile, o.KeyFile = ca.pair("client")
		openSynced(o)
	})

	It("is not used with http endpoints, whatever files are given", func() {
		o := options(shared)
		o.CAFile = caFile
		openSynced(o)
	})
})

var _ = Describe("authentication", func() {
	const password = "correct horse"
	var (
		eo     embedded.Options
		server *embedded.Server
		o      Options
	)
	BeforeEach(func(ctx SpecContext) {
		eo = embedded.Options{Dir: GinkgoT().TempDir(), UnsafeNoSync: true}
		var err error
		server, err = embedded.Start(ctx, eo)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return server.Close() })
		o = options(server)
		o.Username, o.Password = "flannel", password
		c := server.Client()
		for _, name := range []string{"root", "flannel"} {
			_, err := c.RoleAdd(ctx, name)
			Expect(err).NotTo(HaveOccurred())
			_, err = c.UserAdd(ctx, name, password)
			Expect(err).NotTo(HaveOccurred())
			_, err = c.UserGrantRole(ctx, name, name)
			Expect(err).NotTo(HaveOccurred())
		}
		// These are the permissions that upstream needs, and no key more.
		for _, r := range [][2]string{
			{o.Prefix + "/config", ""},
			{o.Prefix + "/subnets", o.Prefix + "/subnett"},
		} {
			_, err := c.RoleGrantPermission(ctx, "flannel", r[0], r[1], 2) // read and write
			Expect(err).NotTo(HaveOccurred())
		}
		_, err = c.AuthEnable(ctx)
		Expect(err).NotTo(HaveOccurred())
	})

	It("accepts the password again after the server has forgotten the token", func(ctx SpecContext) {
		s := openSynced(o)
		g, err := s.Create(ctx, key("10.5.1.0-24"), attrs("192.0.2.1"), lifetime)
		Expect(err).NotTo(HaveOccurred())

		// Tokens live in the server's memory only.
		eo.ListenClient = server.Endpoints()
		Expect(server.Close()).To(Succeed())
		Eventually(s.View).Should(HaveField("Synced", false))
		server, err = embedded.Start(ctx, eo)
		Expect(err).NotTo(HaveOccurred())
		eventuallySynced(s)
		g, err = s.Renew(ctx, g)
		Expect(err).NotTo(HaveOccurred())
		g, err = s.Update(ctx, g, attrs("192.0.2.2"), 2*lifetime)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() lease.Attrs { return leaseOf(s, "10.5.1.0-24").Attrs }).Should(Equal(attrs("192.0.2.2")))
		Expect(s.Release(ctx, g)).To(Succeed())
	})

	It("says that a password is wrong or missing, and never prints it", func() {
		o.Password = "incorrect donkey"
		s := open(o)
		Eventually(s.View).Should(HaveField("Err",
			MatchError("etcd: connect: etcdserver: authentication failed, invalid user ID or password")))
		o.Username, o.Password = "", ""
		Eventually(open(o).View).Should(HaveField("Err", MatchError(ContainSubstring("user name is empty"))))
	})
})

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() *authority {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	a := &authority{key: key}
	a.cert = a.issue("authority", &key.PublicKey)
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue signs a certificate for 127.0.0.1; the first is the authority's own.
func (a *authority) issue(name string, public *ecdsa.PublicKey) *x509.Certificate {
	GinkgoHelper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,

		BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	Expect(err).NotTo(HaveOccurred())
	cert, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return cert
}

// pair writes a certificate and its key to files.
func (a *authority) pair(name string) (certFile, keyFile string) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	der, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	cert := a.issue(name, &key.PublicKey)
	return writeFile(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
		writeFile(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
