package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

func TestKube(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(2 * time.Millisecond)
	RunSpecs(t, "drivers/kube")
}

const vxlanConfig = `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan"}}`

const dualConfig = `{"Network":"10.244.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10:244::/48",` +
	`"Backend":{"Type":"vxlan"}}`

// configFile writes a network config.
func configFile(text string) string {
	path := filepath.Join(GinkgoT().TempDir(), "net-conf.json")
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

// serve returns an API server and the options to reach it without a kubeconfig.
func serve() (*kubetest.Server, string) {
	api := kubetest.New()
	server := httptest.NewServer(api)
	DeferCleanup(server.Close)
	DeferCleanup(api.Break)
	return api, server.URL
}

// start opens a store of a node.
func start(url, config string, change ...func(*Options)) *Store {
	o := Options{URL: url, Node: "n1", ConfigFile: configFile(config), SetNetworkUnavailable: true}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(context.Background(), o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.Close)
	return s
}

// synced waits until the store follows the server, and returns its snapshot.
func synced(s *Store) lease.View {
	GinkgoHelper()
	Eventually(func() bool { return s.View().Synced }).Should(BeTrue())
	return s.View()
}

// plain is a node as kubelet and kube-controller-manager leave it.
func plain(name string, cidrs ...string) *corev1.Node {
	n := &corev1.Node{}
	n.Name = name
	n.Spec.PodCIDRs = cidrs
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	return n
}

const annotationPrefix = "flannel.alpha.coreos.com/"

// peer is the i-th node with a lease, as upstream writes it.
func peer(i int) *corev1.Node {
	n := plain(fmt.Sprintf("n%d", i), fmt.Sprintf("10.244.%d.0/24", i))
	n.Annotations = annotationsOf(attrs(i))
	return n
}

func annotationsOf(a lease.Attrs) map[string]string {
	m := map[string]string{}
	for suffix, value := range map[string]string{
		"kube-subnet-manager": "true", "backend-type": a.BackendType,
		"backend-data": string(a.BackendData), "public-ip": a.PublicIP.String(),
	} {
		m[annotationPrefix+suffix] = value
	}
	if a.PublicIPv6.IsValid() {
		m[annotationPrefix+"public-ipv6"] = a.PublicIPv6.String()
		m[annotationPrefix+"backend-v6-data"] = string(a.BackendV6Data)
	}
	return m
}

// attrs returns the attributes of the i-th node.
func attrs(i int) lease.Attrs {
	return lease.Attrs{
		PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, byte(i)}), BackendType: "vxlan",
		BackendData: json.RawMessage(fmt.Sprintf(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:%02x"}`, i)),
	}
}

func dual(a lease.Attrs, i int) lease.Attrs {
	a.PublicIPv6 = netip.MustParseAddr(fmt.Sprintf("fd00:64::%d", i))
	a.BackendV6Data = json.RawMessage(fmt.Sprintf(`{"VNI":1,"VtepMAC":"3e:d2:32:6f:8f:%02x"}`, i))
	return a
}

func keyOf(i int) lease.Key {
	return lease.Key{V4: netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", i))}
}

// keys are the subnets that a store shows.
func keys(s *Store) func() []string {
	return func() []string {
		v := s.View()
		if v.Snapshot == nil {
			return nil
		}
		var ks []string
		for _, l := range v.Snapshot.Leases {
			ks = append(ks, l.Key.String())
		}
		return ks
	}
}

// isList reports whether a request reads all nodes, in either way.
func isList(request string) bool {
	return strings.Contains(request, "limit=") || strings.Contains(request, "sendInitialEvents")
}
