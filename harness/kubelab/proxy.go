package kubelab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"

	"github.com/flanneld/flannel/harness"
)

// ProxyEnv is the variable that names the kube-proxy to run.
const ProxyEnv = "FLANNEL_LAB_PROXY"

const proxyMetrics = "127.0.0.1:10249"

// Proxy is a kube-proxy that runs on a node.
type Proxy struct {
	stop func() error
	log  string
}

// proxyKubeconfig makes its reader the user kube-proxy, whose rights every API
// server grants by default.
func (c *Cluster) proxyKubeconfig() string { return c.path("kube-proxy.conf") }

// StartProxy starts a kube-proxy in one of its modes and waits until it has made its rules.
func (c *Cluster) StartProxy(ctx context.Context, n *harness.Node, mode, podCIDR string) (*Proxy, error) {
	program := os.Getenv(ProxyEnv)
	if program == "" {
		return nil, fmt.Errorf("start kube-proxy: %s does not name one; make test-kube builds it", ProxyEnv)
	}
	base := c.path("kube-proxy." + n.Name)
	p := &Proxy{log: base + ".log"}
	if err := c.writeProxyConfig(base+".json", n.Name, mode, podCIDR); err != nil {
		return nil, fmt.Errorf("start kube-proxy on %s: %w", n.Name, err)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start kube-proxy on %s: %w", n.Name, err)
	}
	defer log.Close() // the program has its own copy
	cmd := &exec.Cmd{Path: program, Args: []string{program, "--config=" + base + ".json"}, Dir: c.dir, Stdout: log,
		Stderr: log, Env: os.Environ()}
	p.stop, err = n.Background(cmd)
	if err != nil {
		return nil, fmt.Errorf("start kube-proxy on %s: %w", n.Name, err)
	}
	if err := n.Await(ctx, "kube-proxy", func() (bool, error) { return proxySynced(ctx, n), nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-proxy on %s: %w; its log:\n%s", n.Name, err, p.LogTail()), p.Stop())
	}
	return p, nil
}

// writeProxyConfig makes kube-proxy check its rules every second, and leave the
// limits of connection tracking alone, which do not belong to one namespace.
func (c *Cluster) writeProxyConfig(path, node, mode, podCIDR string) error {
	often := map[string]any{"syncPeriod": "1s"}
	text, err := json.Marshal(map[string]any{
		"kind": "KubeProxyConfiguration", "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
		"clientConnection":   map[string]any{"kubeconfig": c.proxyKubeconfig()},
		"hostnameOverride":   node,
		"mode":               mode,
		"clusterCIDR":        podCIDR,
		"metricsBindAddress": proxyMetrics,
		"iptables":           often,
		"nftables":           often,
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s",
			"tcpCloseWaitTimeout": "0s"},
		"oomScoreAdj": 0,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// proxySynced reports whether the node's kube-proxy has made its rules for both families. Its health does not tell:
// one that is starting up calls itself healthy (Kubernetes pkg/proxy/healthcheck/proxy_health.go).
func proxySynced(ctx context.Context, n *harness.Node) bool {
	client := &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+proxyMetrics+"/metrics", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return err == nil && bytes.Count(text, []byte("\nkubeproxy_sync_proxy_rules_last_timestamp_seconds{")) == 2
}

// Stop kills kube-proxy. Its rules stay.
func (p *Proxy) Stop() error { return p.stop() }

// LogTail returns the last lines of kube-proxy's log.
func (p *Proxy) LogTail() string { return tail(p.log) }
