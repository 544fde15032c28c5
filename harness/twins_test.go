package harness_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// Two daemons with different networks share a device, since their configs have one VNI and one port. Upstream's daemons
// carry the packets of both networks then, and so do these. Node n3 runs the first network alone, so that the daemons
// of the second one find entries on the device that they do not want.
var _ = DescribeTable("two daemons with one VNI", func(
	ctx context.Context, config, second string, families ...cidr.Family,
) {
	requireTools("ip")
	daemon, err := harness.BuildDaemon(ctx)
	Expect(err).NotTo(HaveOccurred())
	lab := newLab(ctx, harness.Options{Nodes: 3, Daemon: daemon, Config: config, IPv6: len(families) > 1})
	Expect(lab.Store.PutRaw(ctx, "/second/config", second)).To(Succeed())
	for _, n := range lab.Nodes {
		Expect(n.Start()).To(Succeed())
		Expect(n.WaitReady(ctx)).To(Succeed())
		_, err := n.AddPod(ctx)
		Expect(err).NotTo(HaveOccurred())
	}
	pods := lab.Pods()
	var others []*harness.Pod
	for _, n := range lab.Nodes[:2] {
		Expect(n.StartSecond(ctx, "--etcd-prefix=/second", "--subnet-file="+n.SubnetFileOf("second"),
			"--state-file="+filepath.Join(filepath.Dir(n.StateFile()), "second.json"))).To(Succeed())
		pod, err := n.AddPodOf(ctx, "second")
		Expect(err).NotTo(HaveOccurred())
		others = append(others, pod)
	}

	streams := []*stream{
		startStream(ctx, pods[0], pods[1]), startStream(ctx, pods[0], pods[2]), startStream(ctx, others[0], others[1]),
	}
	for range 3 {
		for _, s := range streams {
			s.expectNoLoss(ctx)
		}
	}
	for _, f := range families {
		for _, pair := range [][2]*harness.Pod{{pods[0], pods[1]}, {pods[1], pods[2]}, {others[0], others[1]}} {
			Expect(pingPreserved(ctx, pair[0], pair[1], f)).To(Succeed())
		}
	}
	n := lab.Nodes[0]
	Expect(n.Log()).To(ContainSubstring("device-shared: "))
	Expect(n.Log()).NotTo(ContainSubstring("repairs-undone"))
	Expect(n.WaitReady(ctx)).To(Succeed())
},
	Entry("with IPv4", `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`,
		`{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan"}}`, cidr.V4, limit),
	Entry("with both families",
		`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"Type":"vxlan"}}`,
		`{"Network":"10.6.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:6::/48","Backend":{"Type":"vxlan"}}`,
		cidr.V4, cidr.V6, limit),
)
