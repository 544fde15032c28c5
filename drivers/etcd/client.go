package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/status"

	"github.com/flanneld/flannel/internal/orphans"
	"github.com/flanneld/flannel/internal/pause"
	"github.com/flanneld/flannel/internal/tlsfiles"
)

// clientConfig is the library's configuration for these options.
func (o Options) clientConfig(conns *orphans.Conns) (clientv3.Config, error) {
	// Even without an https endpoint, an unreadable file is an error worth reporting.
	secrets, err := tlsfiles.Files{Flags: "etcd", Cert: o.CertFile, Key: o.KeyFile, CA: o.CAFile}.Client()
	if err != nil {
		return clientv3.Config{}, err
	}
	cfg := clientv3.Config{
		Endpoints:   o.Endpoints,
		Username:    o.Username,
		Password:    o.Password,
		DialTimeout: o.Timeout,
		// The client finds and replaces a connection that died silently.
		// Servers hang up on more frequent pings than this.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: o.Timeout,
		Logger:               zap.NewNop(), // it would log every failed attempt
		DialOptions: append([]grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay: pause.FirstWait, MaxDelay: pause.LastWait, Multiplier: 2, Jitter: pause.Jitter,
				},
				MinConnectTimeout: o.Timeout,
			}),
			grpc.WithChainUnaryInterceptor(noteReason),
		}, o.dial...),
	}
	if o.secure() {
		cfg.TLS = secrets() // the library only looks whether there is one
	} else {
		secrets = nil
	}
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(keeping(conns, secrets)))
	return cfg, nil
}

// unlimited lifts the limit on the size of answers: a list grows with the cluster.
var unlimited = grpc.MaxCallRecvMsgSize(math.MaxInt32)

// reason is the cause of the last failed attempt of a call. The client library
// waits for a connection until the call's deadline and then reports only the
// deadline; the reason keeps the refused connection or the bad certificate behind it.
type reason struct{ text atomic.Pointer[string] }

type reasonKey struct{}

// withReason makes the calls under the returned context note their reasons.
func withReason(ctx context.Context) (context.Context, *reason) {
	r := new(reason)
	return context.WithValue(ctx, reasonKey{}, r), r
}

// noteReason is an interceptor that notes the reason of each failed attempt.
func noteReason(ctx context.Context, method string, req, reply any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if r, ok := ctx.Value(reasonKey{}).(*reason); ok && err != nil {
		r.note(err)
	}
	return err
}

func (r *reason) note(err error) {
	text := err.Error()
	if st, ok := status.FromError(err); ok {
		text = st.Message()
	}
	r.text.Store(&text)
}

// explain adds the reason to an error that reports only a deadline.
func (r *reason) explain(err error) error {
	text := r.text.Load()
	if text == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, *text)
}
