package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// selfSigned returns a pair for 127.0.0.1, and the certificate as its own authority.
func selfSigned() (tls.Certificate, []byte) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	c := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, &key.PublicKey, key)
	Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serveTLS runs an API server with a pair.
func serveTLS(api http.Handler, addr string, pair tls.Certificate) *httptest.Server {
	GinkgoHelper()
	server := httptest.NewUnstartedServer(api)
	Expect(server.Listener.Close()).To(Succeed())
	l, err := net.Listen("tcp", addr)
	Expect(err).NotTo(HaveOccurred())
	server.Listener, server.EnableHTTP2 = l, true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	return server
}

var _ = DescribeTable("follows an API server whose authority was replaced",
	func(member string, value func(dir string, authority []byte) string) {
		api, dir := kubetest.New(), GinkgoT().TempDir()
		api.Put(plain("n1", "10.244.1.0/24"))
		DeferCleanup(api.Break)
		kubeconfig := filepath.Join(dir, "kubeconfig")
		write := func(url string, authority []byte) {
			GinkgoHelper()
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",`+
				`"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}],`+
				`"clusters":[{"name":"c","cluster":{"server":%q,%q:%q}}]}`, url, member, value(dir, authority))
			Expect(os.WriteFile(kubeconfig, []byte(text), 0o600)).To(Succeed())
		}
		pair, authority := selfSigned()
		first := serveTLS(api, "127.0.0.1:0", pair)
		write(first.URL, authority)
		s := start("", vxlanConfig, func(o *Options) { o.Kubeconfig = kubeconfig })
		synced(s)
		addr := first.Listener.Addr().String()
		api.Break()
		first.CloseClientConnections()
		Expect(first.Listener.Close()).To(Succeed())
		pair, authority = selfSigned()
		second := serveTLS(api, addr, pair)
		DeferCleanup(second.Close)
		DeferCleanup(api.Break)
		Eventually(func() error { return s.View().Err }, time.Minute).Should(
			MatchError(ContainSubstring("certificate signed by unknown authority")))
		write(second.URL, authority)
		Eventually(func() bool { return s.View().Synced }, time.Minute).Should(BeTrue())
	},
	Entry("in a file beside the kubeconfig", "certificate-authority", func(dir string, authority []byte) string {
		file := filepath.Join(dir, "ca.pem")
		Expect(os.WriteFile(file, authority, 0o600)).To(Succeed())
		return file
	}),
	Entry("in the kubeconfig", "certificate-authority-data", func(_ string, authority []byte) string {
		return base64.StdEncoding.EncodeToString(authority)
	}),
)
