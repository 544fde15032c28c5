package etcd

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/flanneld/flannel/internal/orphans"
)

// kept wraps a transport's credentials and records each connection. gRPC shows
// a connection only here, unless the caller makes it.
type kept struct {
	credentials.TransportCredentials
	conns *orphans.Conns
}

// keeping returns the credentials for a TLS configuration; nil: none are used.
func keeping(conns *orphans.Conns, secrets *tls.Config) credentials.TransportCredentials {
	if secrets == nil {
		return kept{insecure.NewCredentials(), conns}
	}
	return kept{credentials.NewTLS(secrets), conns}
}

// ClientHandshake implements [credentials.TransportCredentials].
func (k kept) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return k.TransportCredentials.ClientHandshake(ctx, authority, k.conns.Keep(raw))
}

// Clone implements [credentials.TransportCredentials].
func (k kept) Clone() credentials.TransportCredentials {
	return kept{k.TransportCredentials.Clone(), k.conns}
}
