package kube

import (
	"net/netip"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a store that reads all nodes while its own node is annotated", func() {
	// The race detector is the judge: `go test -race`.
	for name, older := range map[string]bool{"with streaming lists": false, "with lists in chunks": true} {
		It("shares no memory without its lock "+name, func() {
			api, url := serve()
			if older {
				api.WithoutStreaming()
			}
			api.Put(plain("n1", "10.244.1.0/24"))
			api.Put(peer(2))
			s := start(url, vxlanConfig)
			synced(s)

			var work sync.WaitGroup
			stop := make(chan struct{})
			work.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					a := attrs(1)
					a.PublicIP = netip.AddrFrom4([4]byte{192, 168, 65, byte(i)})
					_, _ = s.Create(ctx, keyOf(1), a, 0)
				}
			})
			for lists := range 3 {
				Eventually(func() int {
					api.Skip(100)
					api.Compact()
					return len(slices.DeleteFunc(api.Requests(), func(r string) bool { return !isList(r) }))
				}).Should(BeNumerically(">", lists+1))
			}
			close(stop)
			work.Wait()
		})
	}
})
