package flannelctl

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/pods"
)

// kubernetes holds the flags that reach daemons through the API server.
type kubernetes struct {
	node string // the daemon to ask; empty: another one
	all  bool   // ask the daemons of all nodes
	pods pods.Options
}

func (f *kubernetes) defineKubernetes(flags *pflag.FlagSet) {
	flags.StringVar(&f.node, "node", "",
		"ask the flanneld of this `node` of a Kubernetes cluster through the API server, as kubectl port-forward does")
	f.pods.UserAgent = "flannelctl/" + buildversion.Version()
	flags.StringVar(&f.pods.Kubeconfig, "kubeconfig", "",
		"the `file` that names the cluster; otherwise as kubectl finds it: $KUBECONFIG, ~/.kube/config")
	flags.StringVar(&f.pods.Context, "context", "", "the `name` of a context in the kubeconfig")
	flags.StringVarP(&f.pods.Namespace, "namespace", "n", "kube-flannel", "the `namespace` of flanneld's pods")
}

// defineAll adds the flag that asks all nodes, after those that exclude it.
func (f *kubernetes) defineAll(c *cobra.Command) {
	c.Flags().BoolVar(&f.all, "all-nodes", false,
		"ask the flanneld of each node of a Kubernetes cluster through the API server, and not that of this host")
	for _, other := range []string{"node", "address", "port"} {
		if c.Flags().Lookup(other) != nil {
			c.MarkFlagsMutuallyExclusive("all-nodes", other)
		}
	}
}

// onNode returns a client of the daemon of the node.
func (f *kubernetes) onNode() *daemon.Client {
	return daemon.Through(func(ctx context.Context) (net.Conn, error) {
		cluster, err := pods.Open(f.pods)
		if err != nil {
			return nil, err
		}
		pod, err := cluster.On(ctx, f.node) // another one than before, if the daemon was replaced
		if err != nil {
			return nil, err
		}
		return cluster.Dial(ctx, pod)
	}, "node "+f.node)
}

// everyNode returns the daemons of all nodes on which a pod of flanneld runs.
func (f *asking) everyNode(ctx context.Context) ([]question, error) {
	cluster, err := pods.Open(f.pods)
	if err != nil {
		return nil, err
	}
	running, err := cluster.Pods(ctx, "")
	if err == nil && len(running) == 0 {
		err = fmt.Errorf("no pod of flanneld runs in namespace %s: is it in another one (--namespace)?", f.pods.Namespace)
	}
	var qs []question
	for _, p := range running {
		dial := func(ctx context.Context) (net.Conn, error) { return cluster.Dial(ctx, p) }
		qs = append(qs, question{from: p.Node, client: daemon.Through(dial, "node "+p.Node)})
	}
	return qs, err
}
