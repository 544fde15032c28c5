package dockerlab_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/dockerlab"
)

// victimEnv makes this program run a container, report its cgroups and wait to be killed.
const victimEnv = "FLANNEL_LAB_DOCKER_VICTIM"

func victim() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	lab, err := harness.New(ctx, harness.Options{Nodes: 1, Daemon: os.Getenv(harness.DaemonEnv),
		Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
	must(err)
	must(lab.Nodes[0].Start())
	must(lab.Nodes[0].WaitReady(ctx))
	s, err := dockerlab.New(ctx, lab, options(os.Getenv(harness.ToolEnv)))
	must(err)
	must(s.Engines[0].Start(ctx))
	must(runContainer(ctx, s.Engines[0]))
	must(json.NewEncoder(os.Stdout).Encode(s.Cgroups()))
	select {}
}

var _ = Describe("A killed lab with an engine", func() {
	It("leaves no process and no cgroup", func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		tool, err := harness.BuildTool(ctx)
		Expect(err).NotTo(HaveOccurred())
		cmd := exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), victimEnv + "=1", harness.DaemonEnv + "=" + daemon,
			harness.ToolEnv + "=" + tool, dockerlab.ProgramsEnv + "=" + os.Getenv(dockerlab.ProgramsEnv)}
		cmd.Stderr = GinkgoWriter
		out, err := cmd.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(cmd.Start()).To(Succeed())
		line, err := bufio.NewReader(out).ReadBytes('\n')
		Expect(err).NotTo(HaveOccurred())
		var cgroups []string
		Expect(json.Unmarshal(line, &cgroups)).To(Succeed())
		Expect(cgroups).NotTo(BeEmpty())
		for _, dir := range cgroups {
			Expect(dir).To(BeADirectory())
		}
		Expect(cmd.Process.Kill()).To(Succeed())
		_ = cmd.Wait()
		// A cgroup with a process cannot be removed.
		for _, dir := range cgroups {
			Eventually(dir).WithContext(ctx).ShouldNot(BeADirectory())
		}
	}, limit)
})
