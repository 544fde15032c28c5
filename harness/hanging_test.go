package harness_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness"
)

var _ = Describe("flanneld beside programs that hang", func() {
	var n *harness.Node
	BeforeEach(func(ctx context.Context) {
		daemon, err := harness.BuildDaemon(ctx)
		Expect(err).NotTo(HaveOccurred())
		lab := newLab(ctx, harness.Options{Nodes: 1, Daemon: daemon, LeaseTTL: time.Minute,
			Config: `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`})
		n = lab.Nodes[0]
	}, NodeTimeout(5*time.Minute))
	// end ends the daemon, which has a second to run its last effects and two for its files.
	end := func(ctx context.Context) {
		GinkgoHelper()
		Expect(n.Stop(ctx)).To(Succeed())
		Expect(n.ExitStatus().ExitCode()).To(BeZero(), n.LogTail(20))
	}

	It("ends at SIGTERM while the credential plugin of its kubeconfig hangs", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		fifo, config := filepath.Join(dir, "fifo"), filepath.Join(dir, "kubeconfig")
		Expect(unix.Mkfifo(fifo, 0o600)).To(Succeed())
		Expect(os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, args: [%s],
  interactiveMode: Never}}}]
`, fifo), 0o600)).To(Succeed())
		conf := filepath.Join(dir, "net-conf.json")
		Expect(os.WriteFile(conf, []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`), 0o600)).To(Succeed())
		n.Env = append(n.Env, "NODE_NAME=n1")
		Expect(n.Start("--kube-subnet-mgr", "--kubeconfig-file="+config, "--net-config-path="+conf)).To(Succeed())
		var plugin *os.File
		Eventually(ctx, func() (err error) { // opens once the plugin reads
			plugin, err = os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0)
			return err
		}).Should(Succeed(), n.LogTail(20))
		defer plugin.Close()
		Expect(n.Running()).To(BeTrue())
		end(ctx)
	}, limit)

	It("ends at SIGTERM while no program reads its NOTIFY_SOCKET", func(ctx context.Context) {
		path := listenNotices()
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		for err == nil { // until the queue is full
			Expect(conn.SetWriteDeadline(time.Now().Add(time.Millisecond))).To(Succeed())
			_, err = conn.Write([]byte("STATUS=full"))
		}
		Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeTrue(), "%v", err)
		n.Env = append(n.Env, "NOTIFY_SOCKET="+path)
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		end(ctx)
	}, limit)
})
