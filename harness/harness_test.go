package harness_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/suite"
)

// stubName is the name under which a program is the stub of the daemon.
const stubName = "stub-flanneld"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == stubName {
		if err := stub(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if filepath.Base(os.Args[0]) == killedName {
		fmt.Fprintln(os.Stderr, becomeKilled()) // it returns errors only
		os.Exit(1)
	}
	if os.Getenv(victimEnv) != "" {
		harness.Reexec()
		victim()
		return
	}
	harness.Main(m)
}

func TestHarness(t *testing.T) { suite.Run(t, "harness") }

// stub does the part of flanneld's work that the lab depends on: it takes
// subnet 10.5.N.0/24 and fd00:10:N::/64, where N is the last octet of its
// node's address, says it is ready, and ends with status 0 on a signal.
func stub() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet(stubName, flag.ContinueOnError)
	for _, name := range []string{"etcd-endpoints", "etcd-prefix", "state-file", "healthz-ip", "subnet-lease-ttl",
		"iptables-forward-rules", "subnet-dir", "charon-exec-path", "charon-vici-uri"} {
		flags.String(name, "", "")
	}
	subnetFile, port := flags.String("subnet-file", "", ""), flags.Int("healthz-port", 0, "")
	number, fail := flags.Int("number", 0, ""), flags.Bool("fail", false, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "stub", *number, "runs")
	if *fail {
		return fmt.Errorf("told to fail")
	}
	env := fmt.Sprintf("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.%d.1/24\n"+
		"FLANNEL_IPV6_NETWORK=fd00:10::/32\nFLANNEL_IPV6_SUBNET=fd00:10:%d::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n",
		*number, *number)
	if err := os.WriteFile(*subnetFile, []byte(env), 0o644); err != nil {
		return err
	}
	server := http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", *port),
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// stubDaemon is the path of a stub.
func stubDaemon(dir string) string {
	exe, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(dir, stubName)
	Expect(os.Symlink(exe, path)).To(Succeed())
	return path
}

// newLab builds a lab that ends with the spec.
func newLab(ctx context.Context, o harness.Options) *harness.Lab {
	GinkgoHelper()
	if o.Daemon == "" {
		o.Daemon = stubDaemon(GinkgoT().TempDir())
	}
	lab, err := harness.New(ctx, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(lab.Close)
	return lab
}

// startStub starts a stub on every node and waits until it is ready.
func startStub(ctx context.Context, lab *harness.Lab) {
	GinkgoHelper()
	for _, n := range lab.Nodes {
		Expect(n.Start(fmt.Sprintf("--number=%d", n.Number))).To(Succeed())
	}
	for _, n := range lab.Nodes {
		Expect(n.WaitReady(ctx)).To(Succeed())
	}
}

// limit is the time limit of a spec; a correct spec never reaches it.
const limit = SpecTimeout(time.Minute)
