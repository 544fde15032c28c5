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

// keeping returns the credentials for TLS configurations; nil: none are used.
func keeping(conns *orphans.Conns, secrets func() *tls.Config) credentials.TransportCredentials {
	if secrets == nil {
		return kept{insecure.NewCredentials(), conns}
	}
	return kept{fresh{credentials.NewTLS(secrets()), secrets}, conns}
}

// fresh are credentials that are read again for each connection.
type fresh struct {
	credentials.TransportCredentials
	secrets func() *tls.Config
}

// ClientHandshake implements [credentials.TransportCredentials].
func (f fresh) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.secrets()).ClientHandshake(ctx, authority, raw)
}

// Clone implements [credentials.TransportCredentials].
func (f fresh) Clone() credentials.TransportCredentials { return f }

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
