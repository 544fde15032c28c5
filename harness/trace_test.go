package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/wholedump"
)

// victimEnv makes this program build a lab, report its traces and wait to be
// killed.
const victimEnv = "FLANNEL_LAB_VICTIM"

// traces lists the processes and devices that a lab might leave behind.
type traces struct {
	PIDs   []int
	Spaces []string // network namespaces, as /proc shows them
}

// victim builds a lab with one of everything and waits to be killed.
func victim() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	lab, err := harness.New(ctx, harness.Options{Nodes: 2, Segments: 2, IPv6: true, Daemon: os.Getenv(victimEnv)})
	must(err)
	found := traces{PIDs: []int{os.Getpid()}}
	for _, n := range lab.Nodes {
		must(n.Start(fmt.Sprintf("--number=%d", n.Number)))
		must(n.WaitReady(ctx))
		pod, err := n.AddPod(ctx)
		must(err)
		for _, h := range []*harness.Host{n.Host, pod.Host, lab.Store.Host, lab.Router} {
			pid, err := h.Hold()
			must(err)
			space, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", h.NamespaceFD()))
			must(err)
			found.PIDs, found.Spaces = append(found.PIDs, pid), append(found.Spaces, space)
		}
		found.PIDs = append(found.PIDs, n.PID())
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
	select {}
}

// left returns the traces that still exist.
func (t traces) left() []string {
	var left []string
	tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/ns/net")
	Expect(err).NotTo(HaveOccurred())
	for _, task := range tasks {
		if space, err := os.Readlink(task); err == nil && slices.Contains(t.Spaces, space) {
			left = append(left, task+" "+space)
		}
	}
	for _, pid := range t.PIDs {
		if status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status")); err == nil &&
			!strings.Contains(string(status), "\nState:\tZ") {
			left = append(left, fmt.Sprintf("process %d: %s", pid, strings.SplitN(string(status), "\n", 2)[0]))
		}
	}
	return left
}

// devices lists the devices of the namespace this program is in.
func devices() []string {
	links, err := wholedump.Here.LinkList()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return names
}

// files lists the scratch directory.
func files() []string {
	names, err := filepath.Glob("/dev/shm/*")
	Expect(err).NotTo(HaveOccurred())
	return names
}

var _ = Describe("a lab leaves nothing behind", func() {
	It("when it is closed", func(ctx context.Context) {
		links, before := devices(), files()
		lab := newLab(ctx, harness.Options{Nodes: 1})
		startStub(ctx, lab)
		space, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", lab.Nodes[0].NamespaceFD()))
		Expect(err).NotTo(HaveOccurred())
		found := traces{PIDs: []int{lab.Nodes[0].PID()}, Spaces: []string{space}}
		Expect(len(found.left())).To(BeNumerically(">", 2)) // our thread, the daemon's threads, and the daemon
		Expect(lab.Close()).To(Succeed())
		Eventually(found.left).WithContext(ctx).Should(BeEmpty())
		Expect(devices()).To(Equal(links))
		Expect(files()).To(Equal(before))
	}, limit)

	It("when it is killed", func(ctx context.Context) {
		links, before := devices(), files()
		exe, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		cmd := exec.CommandContext(ctx, exe)
		// The victim begins as any program does, before it enters namespaces.
		cmd.Env = append(slices.DeleteFunc(os.Environ(),
			func(s string) bool { return strings.HasPrefix(s, "FLANNEL_LAB_STAGE=") }),
			victimEnv+"="+stubDaemon(GinkgoT().TempDir()))
		cmd.Stderr = GinkgoWriter
		out, err := cmd.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(cmd.Start()).To(Succeed())
		var found traces
		Expect(json.NewDecoder(out).Decode(&found)).To(Succeed())
		found.PIDs = append(found.PIDs, cmd.Process.Pid)
		Expect(found.Spaces).To(HaveLen(8))
		Expect(len(found.left())).To(BeNumerically(">", len(found.PIDs)))
		Expect(devices()).To(Equal(links))

		Expect(cmd.Process.Kill()).To(Succeed())
		_ = cmd.Wait() // the test killed it
		Eventually(found.left).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		Expect(devices()).To(Equal(links))
		Expect(files()).To(Equal(before))
	}, limit)
})
