package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/flanneld/flannel/drivers/etcd/embedded"
)

const (
	securePort   = 6443
	etcdEndpoint = "http://127.0.0.1:2379"
	apiService   = "10.96.0.1"

	tokenKey  = "sa.key"  // signs the tokens of service accounts
	tokenKeys = "sa.keys" // with these the API server verifies them
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
	if err := n.daemon(ctx, "etcd", "bash", "-c", "exec -a "+childEtcd+" "+selfPath+" /var/lib/etcd"); err != nil {
		return err
	}
	c.Config = &rest.Config{Host: c.server(), BearerToken: c.tokens["admin"],
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.path("files", "tls.crt")}, QPS: -1}
	var err error
	c.Client, err = kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	return errors.Join(
		n.daemon(ctx, "kube-controller-manager", program("kube-controller-manager"), "--kubeconfig="+file("admin.conf"),
			"--allocate-node-cidrs=true", "--cluster-cidr="+c.families(podCIDRs),
			"--service-cluster-ip-range="+c.families(serviceCIDRs),
			"--root-ca-file="+file("tls.crt"), "--service-account-private-key-file="+file(tokenKey),
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

// RotateTokenKey makes the API server sign tokens of service accounts with a new key. It still
// accepts tokens of the former key until RevokeTokens.
func (c *Cluster) RotateTokenKey(ctx context.Context) error {
	former, err := os.ReadFile(c.path("files", tokenKey))
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	return c.setTokenKeys(ctx, key, append(bytes.Clone(key), former...))
}

// RevokeTokens makes the API server refuse all tokens that another than the newest key has signed.
func (c *Cluster) RevokeTokens(ctx context.Context) error {
	key, err := os.ReadFile(c.path("files", tokenKey))
	if err != nil {
		return err
	}
	return c.setTokenKeys(ctx, key, key)
}

// setTokenKeys restarts the API server with a key that signs, and keys that verify.
func (c *Cluster) setTokenKeys(ctx context.Context, sign, verify []byte) error {
	for name, data := range map[string][]byte{tokenKey: sign, tokenKeys: verify} {
		if err := os.WriteFile(c.path("files", name), data, 0o600); err != nil {
			return err
		}
	}
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// newKey returns a private key of RSA.
func newKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

func (c *Cluster) apiServerFlags() []string {
	return []string{
		"--etcd-servers=" + etcdEndpoint,
		"--advertise-address=" + c.Nodes[0].Addr.String(),
		fmt.Sprintf("--secure-port=%d", securePort),
		"--tls-cert-file=" + file("tls.crt"),
		"--tls-private-key-file=" + file("tls.key"),
		"--client-ca-file=" + file("tls.crt"),
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

// writeFiles writes the files that the cluster's programs read: keys, tokens and a
// kubeconfig for each user.
func (c *Cluster) writeFiles(context.Context) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	users := map[string]string{"admin": "admin,admin,system:masters", "kube-proxy": "system:kube-proxy,kube-proxy"}
	for _, n := range c.Nodes {
		users[n.Name] = "system:node:" + n.Name + "," + n.Name + ",system:nodes"
	}
	c.tokens = map[string]string{}
	var tokens strings.Builder
	for name, user := range users {
		c.tokens[name] = rand.Text()
		fmt.Fprintf(&tokens, "%s,%s\n", c.tokens[name], user)
	}
	host := c.Nodes[0].Addr
	chain, tlsKey, err := cert.GenerateSelfSignedCertKey(host.String(),
		[]net.IP{host.AsSlice(), net.ParseIP(apiService), net.IPv4(127, 0, 0, 1)},
		[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{tokenKey: key, tokenKeys: key, "tokens.csv": []byte(tokens.String()),
		"tls.crt": chain, "tls.key": tlsKey} {
		if err := os.WriteFile(c.path("files", name), data, 0o600); err != nil {
			return err
		}
	}
	for name := range users {
		if err := c.writeKubeconfig(name, chain); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig of a user, which works everywhere.
func (c *Cluster) writeKubeconfig(name string, authority []byte) error {
	config := api.NewConfig()
	config.Clusters["cluster"] = &api.Cluster{Server: c.server(), CertificateAuthorityData: authority}
	config.AuthInfos["user"] = &api.AuthInfo{Token: c.tokens[name]}
	config.Contexts["cluster"] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	config.CurrentContext = "cluster"
	return clientcmd.WriteToFile(*config, c.path("files", name+".conf"))
}

// await waits until a condition holds. Its error names the condition and its last error.
func (c *Cluster) await(ctx context.Context, what string, holds func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
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
