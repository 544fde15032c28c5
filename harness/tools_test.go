package harness_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/harness"
)

// withDrivers opens the daemon's drivers for a node's host, as the commands of flannelctl
// do, and calls do with them.
func withDrivers(ctx context.Context, n *harness.Node, do func(*linux.Driver, *firewall.Firewall)) {
	GinkgoHelper()
	host, err := linux.Open(ctx, netns.NsHandle(n.NamespaceFD()), nil)
	Expect(err).NotTo(HaveOccurred())
	defer host.Close()
	filter, err := firewall.Open(ctx, netns.NsHandle(n.NamespaceFD()))
	Expect(err).NotTo(HaveOccurred())
	defer filter.Close()
	do(host, filter)
}

// daemonOf lists the process of a node's daemon, if it runs.
func daemonOf(n *harness.Node) ([]int, error) {
	if n.Running() {
		return []int{n.PID()}, nil
	}
	return nil, nil
}
