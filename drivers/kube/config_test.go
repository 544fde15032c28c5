package kube

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// mounted is a ConfigMap as kubelet mounts it: a change replaces a symbolic link.
type mounted struct {
	dir      string
	versions int
}

func mount(text string) *mounted {
	m := &mounted{dir: GinkgoT().TempDir()}
	m.set(text)
	Expect(os.Symlink("..data/net-conf.json", m.path())).To(Succeed())
	return m
}

func (m *mounted) path() string { return filepath.Join(m.dir, "net-conf.json") }

func (m *mounted) set(text string) {
	GinkgoHelper()
	m.versions++
	version := filepath.Join(m.dir, "..v"+strings.Repeat("i", m.versions))
	Expect(os.Mkdir(version, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(version, "net-conf.json"), []byte(text), 0o600)).To(Succeed())
	Expect(os.Symlink(filepath.Base(version), filepath.Join(m.dir, "..tmp"))).To(Succeed())
	Expect(os.Rename(filepath.Join(m.dir, "..tmp"), filepath.Join(m.dir, "..data"))).To(Succeed())
}

var _ = Describe("the network config in a mounted ConfigMap", func() {
	const hostgwConfig = `{"Network":"10.244.0.0/16","Backend":{"Type":"host-gw"}}`
	const allocConfig = `{"Network":"10.244.0.0/16","Backend":{"Type":"alloc"}}`
	var api *kubetest.Server
	var file *mounted
	var log *journal
	begin := func(config string) *Store {
		var url string
		api, url = serve()
		api.Put(plain("n1", "10.244.1.0/24", "fd00:10:244:1::/64"))
		n := plain("n2", "10.244.2.0/24", "fd00:10:244:2::/64")
		n.Annotations = annotationsOf(dual(attrs(2), 2))
		api.Put(n)
		file, log = mount(config), &journal{}
		s := start(url, config, func(o *Options) {
			o.ConfigFile = file.path()
			o.configEvery = 5 * time.Millisecond
			o.Log = slog.New(log)
		})
		synced(s)
		return s
	}
	config := func(s *Store) func() string {
		return func() string { return string(s.View().Snapshot.Config.Data) }
	}

	It("is followed when it changes", func() {
		s := begin(vxlanConfig)
		before := s.View().Snapshot.Config.Revision
		file.set(hostgwConfig)
		Eventually(config(s)).Should(Equal(hostgwConfig))
		Expect(s.View().Snapshot.Config.Revision).To(BeNumerically(">", before))
		Expect(keys(s)()).To(Equal([]string{"10.244.2.0-24"}))
	})

	It("stays as it is if the new one leaves out the node's own subnet", func() {
		s := begin(vxlanConfig)
		file.set(`{"Network":"10.24.0.0/16","Backend":{"Type":"vxlan"}}`)
		const complaint = "does not contain the pod CIDR 10.244.1.0-24 of this node"
		Eventually(log.lines).Should(ContainElement(ContainSubstring(complaint)))
		Expect(config(s)()).To(Equal(vxlanConfig))
		Expect(keys(s)()).To(Equal([]string{"10.244.2.0-24"}))
		file.set(hostgwConfig)
		Eventually(config(s)).Should(Equal(hostgwConfig))
	})

	It("leads to a new list of all nodes when IPv6 is switched on or off", func() {
		s := begin(vxlanConfig)
		file.set(dualConfig)
		Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24&fd00:10:244:2::-64"}))
		Expect(s.View().Assigned.Key.String()).To(Equal("10.244.1.0-24&fd00:10:244:1::-64"))
		file.set(vxlanConfig)
		Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24"}))
	})

	It("may change between a backend with peers and one without", func() {
		s := begin(allocConfig)
		Expect(keys(s)()).To(BeEmpty())
		file.set(vxlanConfig)
		Eventually(keys(s)).Should(Equal([]string{"10.244.2.0-24"}))
		file.set(allocConfig)
		Eventually(keys(s)).Should(BeEmpty())
		Eventually(s.View).Should(HaveField("Synced", true))
	})

	It("is logged once if it is unusable, and the former one stays in force", func() {
		s := begin(vxlanConfig)
		warnings := func() (bad []string) {
			for _, line := range log.lines() {
				if strings.Contains(line, "the new network config is not used") {
					bad = append(bad, line)
				}
			}
			return bad
		}
		file.set("{\n  \"Network\": \"10.244.0.0/16\",\n  oops\n}")
		Eventually(warnings).Should(HaveExactElements(ContainSubstring(file.path() + ":3:3: ")))
		file.set(`{"Network":"10.244.0.0/16","Backend":{"Type":7}}`)
		Eventually(warnings).Should(HaveLen(2))
		Expect(warnings()[1]).To(And(ContainSubstring(file.path()), ContainSubstring("Type")))
		Consistently(warnings, 50*time.Millisecond).Should(HaveLen(2))
		Expect(config(s)()).To(Equal(vxlanConfig))
		file.set(hostgwConfig)
		Eventually(config(s)).Should(Equal(hostgwConfig))
	})
})
