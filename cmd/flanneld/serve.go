package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// serve runs the server mode: it serves leases from etcd, and takes no subnet.
func serve(ctx context.Context, o *options) node.Exit {
	secrets, err := server.TLS(o.servers.CertFile, o.servers.KeyFile, o.servers.CAFile)
	if err != nil {
		return failed(err)
	}
	ctx, endpoints, end, err := o.etcdEndpoints(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer end()
	log := slog.New(logr.ToSlogHandler(klog.Background()))
	root, err := etcd.Open(ctx, o.etcd.Options(endpoints, log))
	if err != nil {
		return failed(err)
	}
	defer root.Close()
	// Requests end before the stores do, so the server outlives ctx for a moment.
	s, err := server.New(context.WithoutCancel(ctx), server.Options{
		Open:     o.openNetwork(ctx, endpoints, log),
		Networks: root.Networks(), OwnRecords: o.servers.ownRecords, Log: log,
		Identity: server.Identity(o.servers.identity),
		Limits:   server.Limits{ConnsPer: o.servers.conns},
	})
	if err != nil {
		return failed(err)
	}
	defer func() { closing("server", s.Close()) }()
	listener, err := listen(ctx, o.servers.listen)
	if err != nil {
		return failed(err)
	}
	if err := o.serveHealth(ctx, root); err != nil {
		return failed(err)
	}
	klog.Infof("serving leases at %s", listener.Addr())
	if err := notifySocket(sd.SdNotifyReady); err != nil {
		klog.Warningf("sd_notify: %v", err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener, secrets) }()
	select {
	case err := <-served:
		return failed(err)
	case <-ctx.Done():
	}
	if died := new(embeddedDied); errors.As(context.Cause(ctx), &died) {
		return failed(died)
	}
	return node.Exit{Status: statusOK, Reason: fmt.Sprintf("shutting down: %v", context.Cause(ctx))}
}

// openNetwork returns a function that opens the store of a network, which has a
// folder of its own below the prefix (interop 3.9).
func (o *options) openNetwork(
	ctx context.Context, endpoints []string, log *slog.Logger,
) func(string) (server.Store, error) {
	return func(network string) (server.Store, error) {
		at := o.etcd.Options(endpoints, log)
		if network != "" {
			at.Prefix += "/" + network
			at.Log = log.With("network", network)
		}
		store, err := etcd.Open(context.WithoutCancel(ctx), at)
		if err != nil || o.trustsConfig() {
			return store, err
		}
		return &vetted{Store: store, report: func(err error) {
			at.Log.Error("the clients keep the former config", "error", err)
		}}, nil
	}
}

// listen opens the address of --listen.
func listen(ctx context.Context, at string) (net.Listener, error) {
	if number, inherited := strings.CutPrefix(at, "fd://"); inherited {
		return inherit(number)
	}
	l, err := agent.ListenTCP(ctx, strings.TrimPrefix(at, "tcp://"))
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return l, nil
}

// firstDescriptor is the number of the first socket from systemd.
const firstDescriptor = 3

// inherit returns a socket from systemd; without a number the first.
func inherit(number string) (net.Listener, error) {
	n := firstDescriptor
	if number != "" {
		var err error
		n, err = strconv.Atoi(number)
		if err != nil || n < firstDescriptor {
			return nil, fmt.Errorf("--listen: fd://%s: want a descriptor from %d on", number, firstDescriptor)
		}
	}
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("--listen: sockets from systemd: %w", err)
	}
	if i := n - firstDescriptor; i < len(listeners) && listeners[i] != nil {
		return listeners[i], nil
	}
	return nil, fmt.Errorf("--listen: descriptor %d is no listening socket from systemd; it passed %d "+
		"(LISTEN_FDS and LISTEN_PID say which)", n, len(listeners))
}

// serveHealth answers /healthz and /readyz, until ctx ends. A server is ready
// while it follows etcd.
func (o *options) serveHealth(ctx context.Context, store *etcd.Store) error {
	if o.healthzPort <= 0 {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "flanneld is running")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if v := store.View(); !v.Synced {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "flanneld is not ready yet\n%v", v.Err)
			return
		}
		_, _ = fmt.Fprint(w, "flanneld is ready")
	})
	l, err := agent.ListenTCP(ctx, net.JoinHostPort(o.healthzIP, strconv.Itoa(o.healthzPort)))
	if err != nil {
		return fmt.Errorf("--healthz-port: %w", err)
	}
	s := agent.ServeAt(l, mux)
	context.AfterFunc(ctx, func() { closing("health listener", s.Close()) })
	return nil
}
