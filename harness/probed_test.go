package harness_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/tools/check"
)

// probed are faults that probes see, and what check says of them then. The pods reach each other in spite of some.
var probed = []struct {
	fault
	pass bool
}{
	{fault{1, "iptables -I INPUT -i flannel.1 -j DROP", "iptables -D INPUT -i flannel.1 -j DROP",
		`probes of 192.168.64.1 end on this host: rule 1 of chain INPUT .*-i flannel.1 -j DROP drops it`}, true},
	{fault{0, "iptables -I FORWARD ! -d 10.5.0.0/16 -j DROP", "iptables -D FORWARD ! -d 10.5.0.0/16 -j DROP",
		"packets of pods to addresses outside flannel's network end on this host: rule 1 of chain FORWARD"}, true},
	{fault{0, "ip neigh replace 192.168.64.2 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
		"ip neigh del 192.168.64.2 dev eth0",
		"packets to 192.168.64.2 are lost.*permanent entry, by which 192.168.64.2 is 02:00:00:00:00:99"}, false},
}

var _ = Describe("flannelctl check with faults that probes see", func() {
	It("says what was found on this host first", func(ctx context.Context) {
		g := newGame(ctx, "--probe-interval=1s")
		for _, f := range probed {
			By(f.harm)
			g.do(ctx, f.fault, f.harm)
			if !f.pass {
				g.breaks(ctx, f.fault)
			}
			Eventually(ctx, func() string {
				causes, _ := g.told(ctx)
				return fmt.Sprint(causes)
			}).Should(MatchRegexp(f.cause))
			if f.pass {
				Expect(g.ping()).To(Succeed())
				causes, _ := g.told(ctx, pathTopics...)
				for _, c := range causes {
					Expect(c.Level).To(Equal(check.Warning), "pods reach each other, and yet: %s", c.Text)
				}
			}
			g.do(ctx, f.fault, f.undo)
			Eventually(ctx, g.ping).Should(Succeed())
		}
	}, limit)
})
