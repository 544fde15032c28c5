package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

const (
	authorityFile   = "ca.crt"  // the authorities that clients of the API server trust
	certificateFile = "tls.crt" // the API server's certificate and its authority's
	certificateKey  = "tls.key"
)

// spares is how many nodes may be added to a running cluster. The API server reads tokens only when it starts.
const spares = 1

// certificate is one of the API server's, by an authority of its own.
type certificate struct{ chain, key []byte }

// newCertificate makes a certificate for all names of the API server.
func (c *Cluster) newCertificate() (certificate, error) {
	host := c.Nodes[0].Addr
	chain, key, err := cert.GenerateSelfSignedCertKey(host.String(),
		[]net.IP{host.AsSlice(), net.ParseIP(apiService), net.IPv4(127, 0, 0, 1)},
		[]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"})
	return certificate{chain: chain, key: key}, err
}

// serve writes the certificate with which the API server starts.
func (c *Cluster) serve(s certificate) error {
	return errors.Join(os.WriteFile(c.path("files", certificateFile), s.chain, 0o600),
		os.WriteFile(c.path("files", certificateKey), s.key, 0o600))
}

// trust writes the authorities that clients trust when they start, also those with a kubeconfig.
func (c *Cluster) trust(authorities []byte) error {
	if err := os.WriteFile(c.path("files", authorityFile), authorities, 0o600); err != nil {
		return err
	}
	for name := range c.tokens {
		if err := c.writeKubeconfig(name, authorities); err != nil {
			return err
		}
	}
	return nil
}

// ReplaceAuthority replaces the authority of the API server's certificate as Kubernetes' docs
// tell it: first all clients trust both, then the API server gets its new certificate. Between the
// two steps it calls meanwhile, which restarts clients in pods that read authorities only once.
func (c *Cluster) ReplaceAuthority(ctx context.Context, meanwhile func(bundle []byte) error) error {
	next, err := c.newCertificate()
	if err != nil {
		return err
	}
	former, err := os.ReadFile(c.path("files", authorityFile))
	if err != nil {
		return err
	}
	bundle := append(bytes.Clone(next.chain), former...)
	if err := c.trust(bundle); err != nil {
		return err
	}
	if err := errors.Join(c.connect(), c.restartClients(ctx)); err != nil {
		return err
	}
	if err := meanwhile(bundle); err != nil {
		return err
	}
	if err := errors.Join(c.serve(next), c.StopAPIServer(ctx)); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// restartClients starts the programs anew that are clients of the API server by a kubeconfig.
func (c *Cluster) restartClients(ctx context.Context) error {
	n := c.Nodes[0]
	err := errors.Join(n.Kill(ctx, "kube-controller-manager"), n.Kill(ctx, "kube-scheduler"))
	if err != nil {
		return err
	}
	if err := c.startControllers(ctx); err != nil {
		return err
	}
	return c.each(func(ctx context.Context, n *Node) error {
		return errors.Join(n.RestartKubelet(ctx), n.restartProxy(ctx))
	})(ctx)
}

// writeFiles writes the files that the cluster's programs read: keys, tokens and a
// kubeconfig for each user.
func (c *Cluster) writeFiles(context.Context) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	users := map[string]string{"admin": "admin,admin,system:masters", "kube-proxy": "system:kube-proxy,kube-proxy"}
	for i := range c.options.Nodes + spares {
		name := nodeName(i + 1)
		users[name] = "system:node:" + name + "," + name + ",system:nodes"
	}
	c.tokens = map[string]string{}
	var tokens strings.Builder
	for name, user := range users {
		c.tokens[name] = rand.Text()
		fmt.Fprintf(&tokens, "%s,%s\n", c.tokens[name], user)
	}
	for name, data := range map[string][]byte{tokenKey: key, tokenKeys: key, "tokens.csv": []byte(tokens.String())} {
		if err := os.WriteFile(c.path("files", name), data, 0o600); err != nil {
			return err
		}
	}
	certificate, err := c.newCertificate()
	if err != nil {
		return err
	}
	return errors.Join(c.serve(certificate), c.trust(certificate.chain))
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
