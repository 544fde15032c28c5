package harness_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/harness"
)

// racedEnv names a flanneld that is built with the race detector.
const racedEnv = "FLANNEL_LAB_RACED"

// rounds is how often everything changes in a spec of the race detector.
const rounds = 3

// racePages are the pages that readers ask for all the time.
var racePages = []string{"/metrics", "/readyz", "/healthz", control.StatusPage, control.PeersPage, control.DiffPage,
	control.StatePage, control.EventsPage}

// The race detector sees what runs at the same time. So everything changes at once, while each page is read.
var _ = Describe("flanneld under the race detector", func() {
	var daemon string
	BeforeEach(func() {
		requireTools("iptables")
		requireTUN()
		daemon = os.Getenv(racedEnv)
		if daemon == "" {
			Skip("no flanneld with the race detector: " + racedEnv + " names none")
		}
	})
	// build makes a lab of two nodes and starts the second one.
	build := func(ctx context.Context, config string, args ...string) *harness.Lab {
		GinkgoHelper()
		lab := newLab(ctx, harness.Options{Nodes: 2, Daemon: daemon, LeaseTTL: 5 * time.Second, IPv6: true, Config: config,
			DaemonArgs: []string{"--ip-masq", "--iptables-forward-rules", "--iptables-resync=1"}})
		for _, n := range lab.Nodes {
			n.Env = append(n.Env, "GORACE=exitcode=66", "NOTIFY_SOCKET="+listenNotices())
		}
		Expect(lab.Nodes[1].Start(args...)).To(Succeed())
		return lab
	}

	It("finds no race while the config, leases and links of one network change", func(ctx context.Context) {
		lab := build(ctx, raceConfigs[0])
		n := lab.Nodes[0]
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		readWhile(ctx, n, "", control.Socket(n.SubnetFile()), func() {
			for range rounds {
				for i, config := range raceConfigs {
					changeAtOnce(ctx, lab, i, func() error { return lab.Store.SetConfig(ctx, config) })
					Expect(n.WaitReady(ctx)).To(Succeed())
				}
			}
		})
		expectNoRace(ctx, lab)
	}, SpecTimeout(3*time.Minute))

	It("finds no race while the configs of two networks change", func(ctx context.Context) {
		lab := build(ctx, "", "--networks=blue,green")
		n := lab.Nodes[0]
		Expect(n.Start("--networks=blue,green")).To(Succeed())
		Expect(lab.Store.SetConfigOf(ctx, "green", greenConfig)).To(Succeed())
		readWhile(ctx, n, "green", control.Socket(n.SubnetFileOf("green")), func() {
			for range rounds {
				for i, config := range []string{blueConfig, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`} {
					changeAtOnce(ctx, lab, i, func() error { return lab.Store.SetConfigOf(ctx, "blue", config) })
					Expect(n.WaitReady(ctx)).To(Succeed())
				}
			}
		})
		expectNoRace(ctx, lab)
	}, SpecTimeout(3*time.Minute))

	It("finds no race in a server of leases and its client", func(ctx context.Context) {
		const port = ":8888"
		lab := build(ctx, raceConfigs[0], "--listen=0.0.0.0"+port)
		n, server := lab.Nodes[0], lab.Nodes[1]
		Expect(n.Start("--remote=" + server.Underlay(cidr.V4).Addr().String() + port)).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		readWhile(ctx, n, "", control.Socket(n.SubnetFile()), func() {
			for range rounds {
				for i, config := range raceConfigs[:2] {
					changeAtOnce(ctx, lab, i, func() error { return lab.Store.SetConfig(ctx, config) })
					Expect(n.WaitReady(ctx)).To(Succeed())
				}
			}
		})
		expectNoRace(ctx, lab)
	}, SpecTimeout(3*time.Minute))
})

// raceConfigs have a backend in the kernel, one whose packets the process carries, and both families.
var raceConfigs = []string{
	`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`,
	`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",` +
		`"Backend":{"Type":"vxlan","DirectRouting":true}}`,
	`{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`,
	`{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard","Implementation":"userspace"}}`,
	`{"Network":"10.5.0.0/16","EnableNFTables":true,"Backend":{"Type":"host-gw"}}`,
}

// listenNotices returns the path of a socket that reads nothing until the spec ends.
func listenNotices() string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(l.Close)
	return path
}

// changeAtOnce changes the config, the records of peers, the links, the rules and the files of a node side by side.
func changeAtOnce(ctx context.Context, lab *harness.Lab, i int, config func() error) {
	GinkgoHelper()
	n := lab.Nodes[0]
	each := []func() error{
		config,
		func() error {
			for peer := range 20 {
				key := harness.SubnetKey(fmt.Sprintf("10.5.%d.0-24", 200+peer))
				record := fmt.Sprintf(`{"PublicIP":"192.168.64.%d","PublicIPv6":null,"BackendType":"vxlan",`+
					`"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:%02x"}}`, 100+peer, peer+i)
				if err := lab.Store.PutRaw(ctx, key, record); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			_, err := n.Shell(ctx, "set +e; ip link set flannel.1 down; ip link set flannel.1 up; ip link delete flannel.1; "+
				"ip link delete flannel0; iptables -F FLANNEL-FWD; iptables -t nat -F FLANNEL-POSTRTG; true")
			return err
		},
		func() error { return n.SetUnderlayMTU(1500 - 10*(i%2)) },
		func() error {
			_, err := n.Shell(ctx, fmt.Sprintf("rm -f %s %s %s", n.SubnetFile(), n.StateFile(),
				control.Socket(n.SubnetFile())))
			return err
		},
		func() error {
			records, err := lab.Store.ListLeases(ctx)
			if err == nil && len(records) > 0 {
				err = lab.Store.DeleteKey(ctx, records[0].Key)
			}
			return err
		},
	}
	failed := make(chan error, len(each))
	for _, change := range each {
		go func() { failed <- change() }()
	}
	for range each {
		Expect(<-failed).To(Succeed())
	}
}

// readWhile reads every page of a node at its port and its socket while do runs, and once more after it.
func readWhile(ctx context.Context, n *harness.Node, network, socket string, do func()) {
	GinkgoHelper()
	query := ""
	if network != "" {
		query = "?" + control.NetworkParameter + "=" + network
	}
	done := make(chan struct{})
	atSocket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	var readers sync.WaitGroup
	for _, page := range racePages {
		readers.Go(func() {
			defer GinkgoRecover()
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				default:
				}
				if _, _, err := n.Get(ctx, page+query); err != nil {
					continue // the listener may have too many clients
				}
				if answer, err := atSocket.Get("http://flanneld" + page); err == nil {
					_ = answer.Body.Close()
				}
			}
			status, _, err := n.Get(ctx, page+query)
			Expect(err).NotTo(HaveOccurred())
			Expect(status).NotTo(Equal(http.StatusNotFound), page)
		})
	}
	defer readers.Wait()
	defer close(done)
	do()
}

// expectNoRace ends the daemons and reads what the race detector has said: a report gives the process a status other
// than 0.
func expectNoRace(ctx context.Context, lab *harness.Lab) {
	GinkgoHelper()
	for _, n := range lab.Nodes {
		Expect(n.WaitReady(ctx)).To(Succeed())
		Expect(n.Stop(ctx)).To(Succeed())
		if report := n.Log(); strings.Contains(report, "DATA RACE") {
			_, found, _ := strings.Cut(report, "WARNING: DATA RACE")
			Fail(fmt.Sprintf("%s: %d races; the first: %.4000s", n, strings.Count(report, "DATA RACE"), found))
		}
		Expect(n.ExitStatus().ExitCode()).To(BeZero())
	}
}
