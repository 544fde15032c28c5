//go:build !no_embedded_etcd

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/internal/daemonflags"
)

func init() {
	startEtcd = embedEtcd
	// Under the name of its file, ps and pgrep would show another program.
	_ = os.WriteFile("/proc/self/comm", []byte("flanneld"), 0)
}

// embedEtcd is [startEtcd].
func embedEtcd(ctx context.Context, o *options) (_ context.Context, endpoints []string, end func(), err error) {
	socket, err := embedded.SocketURL(o.embedEtcd.dir)
	if err != nil {
		return ctx, nil, nil, fmt.Errorf("--embed-etcd: %w", err)
	}
	listen, err := o.embeddedListen(socket)
	if err != nil {
		return ctx, nil, nil, err
	}
	klog.Infof("embedded etcd reads its data in %s; a panic before the next line means that a file there is damaged: "+
		"restore the folder from a backup, or move it away: nodes then write their leases again", o.embedEtcd.dir)
	server, err := embedded.Start(ctx, embedded.Options{
		Dir: o.embedEtcd.dir, ListenClient: listen,
		Fatal:    func(text string) { klog.Error(text); klog.Flush() },
		CertFile: o.etcd.CertFile, KeyFile: o.etcd.KeyFile, ClientCAFile: o.etcd.CAFile,
	})
	if err != nil {
		return ctx, nil, nil, err
	}
	end = func() { closing("embedded etcd", server.Close()) }
	klog.Infof("embedded etcd listens on %s, data in %s", strings.Join(listen, " and "), o.embedEtcd.dir)
	if err := o.seed(ctx, server); err != nil {
		end()
		return ctx, nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case err := <-server.Err():
			cancel(&embeddedDied{err})
		case <-ctx.Done():
		}
	}()
	return ctx, []string{socket}, end, nil
}

// seed stores the network config file unless the store has a config already. It
// refuses a bad file: once stored, the config would have to be replaced in the
// store.
func (o *options) seed(ctx context.Context, server *embedded.Server) error {
	if o.several() {
		return nil // the file holds one config, and each network has its own
	}
	data, err := os.ReadFile(o.netConfigPath)
	if errors.Is(err, fs.ErrNotExist) && o.netConfigPath == daemonflags.NetConfig {
		return nil // the node reports a missing config
	}
	if err != nil {
		return fmt.Errorf("--net-config-path: %w", err)
	}
	if _, err := config.Parse(data); err != nil {
		return fmt.Errorf("--net-config-path %s: %w", o.netConfigPath, err)
	}
	stored, err := embedded.SeedConfig(ctx, server.Client(), o.etcd.Prefix, data)
	switch {
	case err != nil:
		return err
	case stored:
		klog.Infof("network config of %s stored in the embedded etcd", o.netConfigPath)
	default:
		klog.Infof("the embedded etcd holds a network config already; %s is not used", o.netConfigPath)
	}
	return nil
}
