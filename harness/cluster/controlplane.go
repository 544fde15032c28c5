package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/harness/internal/machine"
)

const (
	securePort   = 6443
	etcdEndpoint = "http://127.0.0.1:2379"
	apiService   = "10.96.0.1"
)

// program returns where a node finds a program of make cluster-programs.
func program(name string) string { return programsDir + "/bin/" + name }

// file returns where a node finds one of the cluster's files.
func file(name string) string { return filesDir + "/" + name }

// server returns the API server's address.
func (c *Cluster) server() string {
	return fmt.Sprintf("https://%s:%d", c.Nodes[0].Addr, securePort)
}

// Kubeconfig returns the path of an administrator's file, on the test's side.
func (c *Cluster) Kubeconfig() string { return c.path("files", "admin.conf") }

// serveEtcd runs an etcd with its data in a folder until a signal ends it.
func serveEtcd(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := embedded.Start(ctx, embedded.Options{Dir: args[0], ListenClient: []string{etcdEndpoint},
		UnsafeNoSync: true})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return server.Close()
}

// startControlPlane starts the control plane on the first node, whose network reaches pods.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	n := c.Nodes[0]
	// The name under which this program runs tells it what to do.
	if err := n.daemon(ctx, "etcd", "bash", "-c", "exec -a "+childEtcd+" "+machine.SelfPath+" /var/lib/etcd"); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	return c.startControllers(ctx)
}

// connect makes the test's clients, which trust the cluster's authorities.
func (c *Cluster) connect() error {
	authority, err := os.ReadFile(c.path("files", authorityFile))
	if err != nil {
		return err
	}
	c.Config = &rest.Config{Host: c.server(), BearerToken: c.tokens["admin"],
		TLSClientConfig: rest.TLSClientConfig{CAData: authority}, QPS: -1}
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

// startControllers starts the control plane's clients of the API server.
func (c *Cluster) startControllers(ctx context.Context) error {
	n := c.Nodes[0]
	// How long a node may be silent before its pods are evicted. An emulated one on a busy host takes longer than usual.
	grace := "50s"
	if c.options.Emulated > 0 {
		grace = "5m"
	}
	return errors.Join(
		n.daemon(ctx, "kube-controller-manager", program("kube-controller-manager"), "--kubeconfig="+file("admin.conf"),
			"--node-monitor-grace-period="+grace, "--allocate-node-cidrs=true", "--cluster-cidr="+c.families(podCIDRs),
			"--service-cluster-ip-range="+c.families(serviceCIDRs),
			"--root-ca-file="+file(authorityFile), "--service-account-private-key-file="+file(tokenKey),
			"--leader-elect=false"),
		n.daemon(ctx, "kube-scheduler", program("kube-scheduler"), "--kubeconfig="+file("admin.conf"),
			"--leader-elect=false"),
	)
}

// StartAPIServer starts the API server on the first node and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	n := c.Nodes[0]
	server := append([]string{program("kube-apiserver")}, c.apiServerFlags()...)
	if err := n.daemon(ctx, "kube-apiserver", server...); err != nil {
		return err
	}
	err := c.await(ctx, "kube-apiserver", func(ctx context.Context) error {
		_, err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, n.LogTail("kube-apiserver"))
	}
	return nil
}

// StopAPIServer kills the API server and waits until its port is free.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	n := c.Nodes[0]
	if err := n.Kill(ctx, "kube-apiserver"); err != nil {
		return err
	}
	return c.awaitEnd(ctx, "kube-apiserver", netip.AddrPortFrom(n.Addr, securePort))
}

// awaitEnd waits until a killed program no longer listens.
func (c *Cluster) awaitEnd(ctx context.Context, program string, address netip.AddrPort) error {
	return c.await(ctx, "the end of "+program, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address.String())
		if err == nil {
			return errors.Join(errors.New("it still listens"), conn.Close())
		}
		return nil
	})
}

func (c *Cluster) apiServerFlags() []string {
	return []string{
		"--etcd-servers=" + etcdEndpoint,
		"--advertise-address=" + c.Nodes[0].Addr.String(),
		fmt.Sprintf("--secure-port=%d", securePort),
		"--tls-cert-file=" + file(certificateFile),
		"--tls-private-key-file=" + file(certificateKey),
		"--client-ca-file=" + file(authorityFile),
		"--token-auth-file=" + file("tokens.csv"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file(tokenKeys),
		"--service-account-signing-key-file=" + file(tokenKey),
		"--service-cluster-ip-range=" + c.families(serviceCIDRs),
		"--profiling=false",
	}
}

// await waits until a condition holds. Its error names the condition and its last error.
func (c *Cluster) await(ctx context.Context, what string, holds func(context.Context) error) error {
	patience := 5 * time.Second // a command on a node that is given up runs on
	if c.options.Emulated > 0 {
		patience = time.Minute
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		err := holds(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
