package image_test

import (
	"context"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/dockerlab"
)

// daemonName is the name of the container with flanneld.
const daemonName = "flanneld"

// runOnNode builds a lab of two nodes. The daemon of the second is a container of the image whose archive is in the
// folder. It has the rights that the manifest gives it.
func runOnNode(ctx context.Context, dir string) {
	GinkgoHelper()
	daemon, err := harness.BuildDaemon(ctx)
	Expect(err).NotTo(HaveOccurred())
	tool, err := harness.BuildTool(ctx)
	Expect(err).NotTo(HaveOccurred())
	lab, err := harness.New(ctx, harness.Options{Nodes: 2, Daemon: daemon, LeaseTTL: time.Minute,
		Config:     `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`,
		DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules"}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(lab.Close)
	n := lab.Nodes[1]
	files := filepath.Dir(filepath.Dir(n.SubnetFile()))
	o := options(tool)
	o.Binds = map[string]string{dir: sharedDir, files: files}
	site, err := dockerlab.New(ctx, lab, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(site.Close()).To(Succeed()) })
	e := site.Engines[1]
	e.Plain, e.Options = true, dockerlab.OwnNetworkOff
	Expect(e.Start(ctx)).To(Succeed())
	_, err = e.Docker(ctx, "load", "--quiet", "--input="+sharedDir+"/"+archive)
	Expect(err).NotTo(HaveOccurred())

	run := []string{"run", "--detach", "--name=" + daemonName, "--network=host", "--read-only",
		"--cap-drop=ALL", "--cap-add=NET_ADMIN", "--cap-add=NET_RAW", "--security-opt=no-new-privileges",
		"--volume=" + files + ":" + files, "--env=XTABLES_LOCKFILE=" + filepath.Join(files, "xtables.lock"), tag}
	_, err = e.Docker(ctx, append(run, n.Command()[1:]...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(e.Docker(ctx, "logs", "--tail=30", daemonName))
		}
	})
	Expect(lab.Nodes[0].Start()).To(Succeed())
	for _, n := range lab.Nodes {
		Eventually(func() (bool, error) { return n.Ready(ctx) }).WithContext(ctx).Should(BeTrue())
		_, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() error {
		_, err := lab.Pods()[0].Ping(ctx, lab.Pods()[1].Addr(cidr.V4), harness.PingOptions{Timeout: time.Second})
		return err
	}).WithContext(ctx).Should(Succeed())
	Expect(e.Exec(ctx, daemonName, "flannelctl", "status", "--subnet-file="+n.SubnetFile())).
		To(ContainSubstring("ready"))
	Expect(n.Shell(ctx, "iptables -t nat -S")).To(ContainSubstring("MASQUERADE"))
	_, err = e.Docker(ctx, "stop", daemonName)
	Expect(err).NotTo(HaveOccurred())
	Expect(e.Docker(ctx, "inspect", "--format={{.State.ExitCode}}", daemonName)).To(Equal("0"))
}
