// Coredns is CoreDNS with the plugins that Kubernetes' DNS needs, and no others:
// the cluster tests run it. The stock build has dozens, and takes far longer.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	dnsserver.Directives = []string{"errors", "ready", "cache", "kubernetes"}
	coremain.Run()
}
