package daemonflags

import "flag"

// The defaults of the flags of Kubernetes (interop 1.2).
const (
	NetConfig   = "/etc/kube-flannel/net-conf.json"
	Annotations = "flannel.alpha.coreos.com"
)

// Kube holds the values of the flags that choose a Kubernetes cluster.
type Kube struct {
	On                           bool // the subnets come from Kubernetes instead of etcd
	URL, Kubeconfig, Annotations string
}

// Define adds the flags to a set.
func (k *Kube) Define(fs *flag.FlagSet) {
	fs.BoolVar(&k.On, "kube-subnet-mgr", false,
		"take the subnet from the node object in Kubernetes instead of etcd; NODE_NAME, or POD_NAME and POD_NAMESPACE, "+
			"say which")
	fs.StringVar(&k.URL, "kube-api-url", "",
		"`url` of the Kubernetes API server; with neither this nor --kubeconfig-file, as a pod of the cluster")
	fs.StringVar(&k.Kubeconfig, "kubeconfig-file", "", "kubeconfig `file`")
	fs.StringVar(&k.Annotations, "kube-annotation-prefix", Annotations, "`prefix` of the node annotations")
}
