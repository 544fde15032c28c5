// Cluster starts a whole Kubernetes cluster on this machine, with flannel as
// deploy/kube-flannel.yml installs it. Run it by "make cluster".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/flanneld/flannel/harness/cluster"
)

func main() {
	cluster.Reexec()
	o := cluster.Options{Progress: os.Stdout}
	var hold bool
	flag.IntVar(&o.Nodes, "nodes", 3, "the `number` of nodes")
	flag.IntVar(&o.Emulated, "emulated", 0, "the `number` of nodes that are virtual machines with Debian's kernel")
	flag.StringVar(&o.Guest, "guest", "bin/vm", "`program` of make bin/vm, for such nodes")
	flag.StringVar(&o.Programs, "programs", os.Getenv(cluster.ProgramsEnv), "`folder` of make cluster-programs")
	flag.StringVar(&o.Flannel, "flannel", "bin", "`folder` with flanneld and flannel-cni")
	flag.StringVar(&o.Plugins, "plugins", "bin/cni", "`folder` with other CNI plugins")
	flag.StringVar(&o.Manifest, "manifest", "deploy/kube-flannel.yml", "`file` to apply")
	flag.StringVar(&o.Tools, "tools", "deploy/firewall-tools", "`program` that collects nft and iptables")
	flag.StringVar(&o.ProxyMode, "proxy-mode", "nftables", "`mode` of kube-proxy: nftables or iptables")
	flag.BoolVar(&o.DualStack, "dual-stack", false, "IPv6 beside IPv4; the manifest must say so too")
	flag.BoolVar(&hold, "hold", os.Getenv("HOLD") == "1", "stay up until Ctrl-C, and say how to use it")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, hold)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run starts a cluster, shows its pods and ends it.
func run(ctx context.Context, o cluster.Options, hold bool) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	c, err := cluster.Start(limited, o)
	if err != nil {
		return err
	}
	pods, err := c.Kubectl(limited, "get", "nodes,pods", "-A", "-o", "wide")
	fmt.Print(pods)
	if hold && err == nil {
		fmt.Printf("\nIts network:  nsenter -t %d -n -m    then: export KUBECONFIG=%s PATH=%s/bin:$PATH\n",
			os.Getpid(), c.Kubeconfig(), o.Programs)
		for _, n := range c.Nodes {
			if n.Emulated {
				fmt.Printf("%s is a virtual machine: kubectl exec in one of its pods\n", n.Name)
				continue
			}
			fmt.Printf("Enter %s:     nsenter -t %d -a\n", n.Name, n.PID())
		}
		fmt.Println("Ctrl-C ends it.")
		<-ctx.Done()
	}
	if e := c.Close(); err == nil {
		err = e
	}
	return err
}
