package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
)

const (
	kubeletPort     = 10250
	proxyHealthPort = 10256
)

// kubeletConfig returns kubelet's configuration, which is the same on every node.
func kubeletConfig() map[string]any {
	none := map[string]string{"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
		"imagefs.available": "0%", "imagefs.inodesFree": "0%"}
	on, off := map[string]any{"enabled": true}, map[string]any{"enabled": false}
	return map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"authentication":           map[string]any{"anonymous": on, "webhook": off},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"cgroupDriver":             "cgroupfs",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"evictionHard":             none,
		"clusterDNS":               []string{dnsAddr},
		"clusterDomain":            "cluster.local",
		"containerRuntimeEndpoint": "unix://" + runtimeSocket,
		"resolvConf":               "",
		// Ready within a second of the CNI configuration, and reported at once.
		"nodeStatusUpdateFrequency": "4s",
		// So soon a changed ConfigMap reaches the files of its pods; by default within a minute.
		"syncFrequency": "5s",
		"oomScoreAdj":   0,
	}
}

func (n *Node) startKubelet(ctx context.Context) error {
	if err := n.cluster.writeJSON("kubelet.json", kubeletConfig()); err != nil {
		return err
	}
	return n.daemon(ctx, "kubelet", program("kubelet"), "--config="+file("kubelet.json"),
		"--kubeconfig="+file(n.Name+".conf"), "--hostname-override="+n.Name,
		"--node-ip="+n.cluster.families([2]string{n.Addr.String(), n.Addr6.String()}))
}

// proxyConfig returns kube-proxy's configuration. It leaves the limits of connection tracking
// alone, which do not belong to one namespace.
func proxyConfig(node, mode, pods string) map[string]any {
	return map[string]any{
		"kind": "KubeProxyConfiguration", "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
		"clientConnection":   map[string]any{"kubeconfig": file("kube-proxy.conf")},
		"hostnameOverride":   node,
		"mode":               mode,
		"clusterCIDR":        pods,
		"healthzBindAddress": fmt.Sprintf("0.0.0.0:%d", proxyHealthPort),
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s",
			"tcpCloseWaitTimeout": "0s"},
		"oomScoreAdj": 0,
	}
}

// startProxy starts kube-proxy as a plain process, since the specs do not test it.
func (n *Node) startProxy(ctx context.Context) error {
	name := "kube-proxy." + n.Name + ".json"
	config := proxyConfig(n.Name, n.cluster.options.ProxyMode, n.cluster.families(podCIDRs))
	if err := n.cluster.writeJSON(name, config); err != nil {
		return err
	}
	if err := n.daemon(ctx, "kube-proxy", program("kube-proxy"), "--config="+file(name)); err != nil {
		return err
	}
	health := fmt.Sprintf("http://%s:%d/healthz", n.Addr, proxyHealthPort)
	return n.cluster.await(ctx, "kube-proxy of "+n.Name, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, health, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", health, resp.Status)
		}
		return nil
	})
}

// restartProxy kills kube-proxy and starts it again.
func (n *Node) restartProxy(ctx context.Context) error {
	if err := n.Kill(ctx, "kube-proxy"); err != nil {
		return err
	}
	err := n.cluster.awaitEnd(ctx, "kube-proxy", netip.AddrPortFrom(n.Addr, proxyHealthPort))
	if err != nil {
		return err
	}
	return n.startProxy(ctx)
}

// writeJSON writes one of the cluster's files, for the nodes to read.
func (c *Cluster) writeJSON(name string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	// A rename, because several nodes may write and read the same file.
	temp, err := os.CreateTemp(c.path("files"), name)
	if err != nil {
		return err
	}
	if _, err := temp.Write(text); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), c.path("files", name))
}
