package kubelab

import (
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
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// ServerEnv is the variable that names the kube-apiserver to run.
const ServerEnv = "FLANNEL_LAB_APISERVER"

// ServiceAccount is the user name of the manifest's ServiceAccount.
const ServiceAccount = "system:serviceaccount:kube-flannel:flannel"

const (
	securePort  = 6443
	adminToken  = "admin-of-the-lab"
	daemonToken = "flannel-of-the-lab"
	proxyToken  = "proxy-of-the-lab"
)

// Cluster is an API server in the lab's store host.
type Cluster struct {
	Client kubernetes.Interface // of an administrator
	Config *rest.Config         // the same

	lab  *harness.Lab
	dir  string
	stop func() error
}

// Start starts the server that ServerEnv names and waits until it serves. Its
// files are in dir.
func Start(ctx context.Context, lab *harness.Lab, dir string) (*Cluster, error) {
	server := os.Getenv(ServerEnv)
	if server == "" {
		return nil, fmt.Errorf("start kube-apiserver: %s does not name one; make test-kube builds it", ServerEnv)
	}
	c := &Cluster{lab: lab, dir: dir}
	if err := c.writeFiles(); err != nil {
		return nil, fmt.Errorf("start kube-apiserver: %w", err)
	}
	if err := c.Resume(ctx); err != nil {
		return nil, err
	}
	c.Config = &rest.Config{
		Host:        "https://" + c.addr().String(),
		BearerToken: adminToken,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: c.path("tls.crt"),
		},
		Dial: lab.Store.Dial,
		QPS:  -1, // a test writes as fast as it can
	}
	var err error
	c.Client, err = kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if err := c.await(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, errors.Join(c.writeKubeconfig(c.Kubeconfig(), daemonToken),
		c.writeKubeconfig(c.proxyKubeconfig(), proxyToken))
}

// addr returns the server's address for the nodes.
func (c *Cluster) addr() netip.AddrPort {
	return netip.AddrPortFrom(c.lab.Store.Addr(cidr.V4), securePort)
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

// Resume starts the server, with its earlier objects.
func (c *Cluster) Resume(ctx context.Context) error {
	log, err := os.OpenFile(c.path("apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	defer log.Close() // the server has its own copy
	server := os.Getenv(ServerEnv)
	cmd := &exec.Cmd{Path: server, Args: append([]string{server}, c.args()...), Dir: c.dir, Stdout: log, Stderr: log}
	c.stop, err = c.lab.Store.Background(cmd)
	if err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	if c.Client != nil {
		return c.await(ctx)
	}
	return nil
}

// Stop ends the server. Its objects stay in etcd.
func (c *Cluster) Stop() error { return c.stop() }

// args returns the server's flags: RBAC, tokens from a file, no webhooks.
func (c *Cluster) args() []string {
	return []string{
		"--etcd-servers=" + c.lab.Store.Endpoint(),
		"--bind-address=" + c.addr().Addr().String(),
		"--advertise-address=" + c.addr().Addr().String(),
		fmt.Sprintf("--secure-port=%d", securePort),
		"--tls-cert-file=" + c.path("tls.crt"),
		"--tls-private-key-file=" + c.path("tls.key"),
		"--token-auth-file=" + c.path("tokens.csv"),
		"--authorization-mode=RBAC",
		"--allow-privileged=true", // as kubeadm sets it
		"--service-account-issuer=https://lab.invalid",
		"--service-account-key-file=" + c.path("sa.key"),
		"--service-account-signing-key-file=" + c.path("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none",
		"--profiling=false",
	}
}

// writeFiles writes the files that the server reads.
func (c *Cluster) writeFiles() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	sa := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	tokens := adminToken + ",admin,admin,system:masters\n" +
		daemonToken + "," + ServiceAccount + ",flannel,\"system:serviceaccounts,system:serviceaccounts:kube-flannel\"\n" +
		proxyToken + ",system:kube-proxy,kube-proxy\n"
	host := c.addr().Addr().String()
	chain, tlsKey, err := cert.GenerateSelfSignedCertKey(host, []net.IP{c.addr().Addr().AsSlice()}, nil)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"sa.key": sa, "tokens.csv": []byte(tokens), "tls.crt": chain,
		"tls.key": tlsKey} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the server serves.
func (c *Cluster) await(ctx context.Context) error {
	err := c.lab.Store.Await(ctx, "kube-apiserver", func() (bool, error) {
		body, err := c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil && string(body) == "ok", nil
	})
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, c.LogTail())
	}
	return nil
}

// LogTail returns the end of the server's log.
func (c *Cluster) LogTail() string { return tail(c.path("apiserver.log")) }

func tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// Kubeconfig returns the path of a kubeconfig of the manifest's ServiceAccount.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// writeKubeconfig writes a kubeconfig of the user with that token.
func (c *Cluster) writeKubeconfig(path, token string) error {
	config := api.NewConfig()
	config.Clusters["lab"] = &api.Cluster{Server: "https://" + c.addr().String(), CertificateAuthority: c.path("tls.crt")}
	config.AuthInfos["user"] = &api.AuthInfo{Token: token}
	config.Contexts["lab"] = &api.Context{Cluster: "lab", AuthInfo: "user"}
	config.CurrentContext = "lab"
	return clientcmd.WriteToFile(*config, path)
}
