package harness_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/hostpaths"
	"github.com/flanneld/flannel/internal/killed"
)

// killedName is the name under which this program becomes the flanneld of DaemonEnv, which the kernel kills at the
// first rename.
const killedName = "killed-flanneld"

func becomeKilled() error {
	program := os.Getenv(harness.DaemonEnv)
	if err := killed.AtRename(); err != nil {
		return err
	}
	return syscall.Exec(program, os.Args, os.Environ())
}

var _ = Describe("flanneld killed while it writes a file", func() {
	const kills = 5
	It("leaves no temporary file behind after the next start", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 1, Daemon: daemon, LeaseTTL: time.Minute,
			DaemonArgs: []string{"--allow-extension"},
			Config:     `{"Network":"10.5.0.0/16","Backend":{"Type":"extension","PreStartupCommand":"true"}}`})
		n := lab.Nodes[0]
		exe, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		killer := filepath.Join(GinkgoT().TempDir(), killedName)
		Expect(os.Symlink(exe, killer)).To(Succeed())
		n.Env = append(n.Env, harness.DaemonEnv+"="+daemon)

		record := hostpaths.Record(n.StateFile())
		for _, missing := range []string{n.SubnetFile(), n.StateFile(), record} {
			lab.Options.Daemon = killer
			for range kills {
				Expect(n.Start()).To(Succeed())
				Eventually(ctx, n.Ended()).Should(BeClosed())
				Expect(n.ExitStatus().String()).To(ContainSubstring("bad system call"), n.LogTail(20))
			}
			Expect(temporaryFiles(n)).NotTo(BeEmpty())
			lab.Options.Daemon = daemon
			Expect(n.Start()).To(Succeed())
			Expect(n.WaitReady(ctx)).To(Succeed())
			Expect(n.Stop(ctx)).To(Succeed())
			Expect(temporaryFiles(n)).To(BeEmpty())
			Expect(os.Remove(missing)).To(Succeed())
		}
	}, limit)
})

// temporaryFiles lists the files of a node with a leading dot.
func temporaryFiles(n *harness.Node) (found []string) {
	GinkgoHelper()
	for _, dir := range []string{filepath.Dir(n.SubnetFile()), filepath.Dir(n.StateFile())} {
		entries, err := os.ReadDir(dir)
		Expect(err).NotTo(HaveOccurred())
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				found = append(found, e.Name())
			}
		}
	}
	return found
}
