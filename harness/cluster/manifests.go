package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// coredns installs CoreDNS as kubeadm does, with the plugins of our build.
const coredns = `apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        ready
        kubernetes cluster.local in-addr.arpa ip6.arpa {
            pods insecure
            ttl 30
        }
        cache 30
    }
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: ` + dnsAddr + `
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      dnsPolicy: Default
      containers:
      - name: coredns
        image: ` + corednsImage + `
        args: [-conf, /etc/coredns/Corefile]
        volumeMounts: [{name: config, mountPath: /etc/coredns, readOnly: true}]
        readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1}
      volumes: [{name: config, configMap: {name: coredns}}]
`

// Kubectl runs kubectl as an administrator and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.options.Programs, "bin/kubectl"),
		append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %q: %w: %s", args, err, out)
	}
	return string(out), nil
}

// Helm runs helm as an administrator and returns its output. It keeps its caches among the cluster's files.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.options.Programs, "bin/helm"),
		append([]string{"--kubeconfig=" + c.Kubeconfig()}, args...)...)
	cmd.Env = []string{"HOME=" + c.path("helm")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("helm %q: %w: %s", args, err, out)
	}
	return string(out), nil
}

// applyManifests applies the manifests as the docs tell operators to do.
func (c *Cluster) applyManifests(ctx context.Context) error {
	flannel, err := os.ReadFile(c.options.Manifest)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"coredns.yml": coredns, "flannel.yml": string(flannel)} {
		path := c.path("files", name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
		if _, err := c.Kubectl(ctx, "apply", "-f", path); err != nil {
			return err
		}
	}
	return nil
}

// awaitNodes waits until every node is Ready.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	return c.await(ctx, "ready nodes", func(ctx context.Context) error {
		for _, n := range c.Nodes {
			if err := n.ready(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// ready returns an error unless the node's object says that it is Ready.
func (n *Node) ready(ctx context.Context) error {
	object, err := n.cluster.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("%s: %s", n.Name, condition.Message)
		}
	}
	return nil
}

// AwaitFlannel waits until a ready pod of the newest DaemonSet runs on every node.
func (c *Cluster) AwaitFlannel(ctx context.Context) error {
	return c.await(ctx, "the DaemonSet of flannel", func(ctx context.Context) error {
		set, err := c.Client.AppsV1().DaemonSets("kube-flannel").Get(ctx, "kube-flannel-ds", metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := set.Status
		if int(s.NumberReady) != len(c.Nodes) ||
			s.UpdatedNumberScheduled != s.NumberReady ||
			s.ObservedGeneration != set.Generation {
			return fmt.Errorf("%d of %d pods are ready, %d are up to date", s.NumberReady, len(c.Nodes),
				s.UpdatedNumberScheduled)
		}
		return nil
	})
}

// awaitDNS waits until CoreDNS answers readiness probes.
func (c *Cluster) awaitDNS(ctx context.Context) error {
	return c.await(ctx, "CoreDNS", func(ctx context.Context) error {
		d, err := c.Client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas < 2 {
			err = fmt.Errorf("%d pods are ready", d.Status.ReadyReplicas)
		}
		return err
	})
}
