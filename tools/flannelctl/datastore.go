package flannelctl

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/kube"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/internal/daemonflags"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// datastore holds flanneld's flags that choose the datastore.
type datastore struct {
	etcd      daemonflags.Etcd
	kube      daemonflags.Kube
	servers   daemonflags.Remote
	network   string
	netConfig string
	timeout   time.Duration
	embedded  string // the default folder of flanneld's --embed-etcd; empty: none
}

// errAssigned is the error of commands that change records, on Kubernetes.
var errAssigned = errors.New("with --kube-subnet-mgr, Kubernetes assigns the subnets: a node has the pod CIDR of its " +
	"node object; kubectl delete node frees it, and no other program may change it")

// defineDatastore adds the flags to a command and all commands below it. They have the
// values of the environment unless the command line says otherwise.
func (a *app) defineDatastore(d *datastore, c *cobra.Command) {
	d.embedded = a.embedded
	flags := flag.NewFlagSet("datastore", flag.ContinueOnError)
	d.etcd.Define(flags)
	d.kube.Define(flags)
	d.servers.Define(flags)
	flags.StringVar(&d.netConfig, "net-config-path", daemonflags.NetConfig, "network config `file`, for --kube-subnet-mgr")
	c.PersistentFlags().AddGoFlagSet(flags)
	// The help shows the values of this moment: no password of the environment yet.
	a.complaints = daemonflags.FromEnv(flags, os.Getenv)
	c.PersistentFlags().StringVar(&d.network, "network", "",
		"the `name` of the network, one of flanneld's --networks; empty: the one without a name")
	c.PersistentFlags().DurationVar(&d.timeout, "timeout", 5*time.Second, "longest `time` to wait for the datastore")
}

// complain prints what is wrong with the environment, if the command reads it.
func (a *app) complain(c *cobra.Command) {
	if c.Flags().Lookup("etcd-endpoints") == nil {
		return
	}
	for _, complaint := range a.complaints {
		fmt.Fprintf(a.stderr, "flannelctl: %v\n", complaint)
	}
}

// errReadOnly is the error of commands that change records, at servers.
var errReadOnly = errors.New("with --remote flannelctl only reads, since servers take changes from nodes alone; " +
	"name the etcd in --etcd-endpoints and leave out --remote")

// snapshot reads all records once. The store is nil unless it is an etcd.
func (d *datastore) snapshot(ctx context.Context) (snap *lease.Snapshot, store *etcd.Store, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	switch {
	case d.kube.On && (d.network != "" || d.servers.Servers != ""):
		return nil, nil, usageError{errors.New("--kube-subnet-mgr excludes --network and --remote: " +
			"Kubernetes is a datastore with one network")}
	case d.kube.On:
		snap, err = kube.List(ctx, kube.Options{
			URL: d.kube.URL, Kubeconfig: d.kube.Kubeconfig, UserAgent: "flannelctl/" + buildversion.Version(),
			AnnotationPrefix: d.kube.Annotations, ConfigFile: d.netConfig, Timeout: d.timeout,
		})
		return snap, nil, err
	case d.servers.Servers != "":
		snap, err = d.fromServers(ctx)
		return snap, nil, err
	}
	endpoints, denied := d.endpoints()
	o := d.etcd.Options(endpoints, nil)
	o.Prefix, err = d.prefix()
	if err != nil {
		return nil, nil, err
	}
	o.Timeout = d.timeout / 2 // so that the reason of a failure is known in time
	store, err = etcd.Open(context.WithoutCancel(ctx), o)
	if err != nil {
		return nil, nil, err
	}
	snap, err = synced(ctx, store)
	if err != nil {
		store.Close()
		err = fmt.Errorf("read etcd at %s: %w", daemonflags.HideCredentials(strings.Join(endpoints, ",")), err)
		return nil, nil, errors.Join(err, denied)
	}
	return snap, store, nil
}

// endpoints returns where etcd is. Without --etcd-endpoints that is the socket of a flanneld with --embed-etcd
// on this host, if one answers there. Denied says that only root can tell.
func (d *datastore) endpoints() (urls []string, denied error) {
	if d.etcd.Endpoints != daemonflags.EtcdEndpoints || d.embedded == "" {
		return d.etcd.URLs(), nil
	}
	socket := hostpaths.EmbeddedSocket(d.embedded)
	conn, err := net.DialTimeout("unix", socket, d.timeout)
	switch {
	case err == nil:
		_ = conn.Close()
		return []string{"unix://" + socket}, nil
	case errors.Is(err, fs.ErrPermission):
		denied = fmt.Errorf("only root may use the etcd of flanneld --embed-etcd, at %s: if this host has one, run "+
			"flannelctl as root", socket)
	}
	return d.etcd.URLs(), denied
}

// changeable is snapshot for commands that change records: they need an etcd.
func (d *datastore) changeable(ctx context.Context) (*lease.Snapshot, *etcd.Store, error) {
	if d.servers.Servers != "" {
		return nil, nil, errReadOnly
	}
	return d.snapshot(ctx)
}

// fromServers reads all records at flannel servers.
func (d *datastore) fromServers(ctx context.Context) (*lease.Snapshot, error) {
	o := d.servers.Options(nil)
	if d.network != "" {
		if err := networks.CheckName(d.network); err != nil {
			return nil, usageError{fmt.Errorf("--network: %w", err)}
		}
		o.Prefix = path.Join(path.Dir(o.Prefix), d.network)
	}
	o.Timeout = d.timeout / 2
	store, err := remote.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	snap, err := synced(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("read servers %s: %w", d.servers.Servers, err)
	}
	return snap, nil
}

// prefix returns the key below which etcd has the data of the network.
func (d *datastore) prefix() (string, error) {
	if d.network == "" {
		return d.etcd.Prefix, nil
	}
	if err := networks.CheckName(d.network); err != nil {
		return "", usageError{fmt.Errorf("--network: %w", err)}
	}
	return path.Join(d.etcd.Prefix, d.network), nil
}

// synced waits for the first complete view of a store.
func synced(ctx context.Context, store lease.Store) (*lease.Snapshot, error) {
	for {
		v := store.View()
		if v.Synced {
			return v.Snapshot, nil
		}
		select {
		case <-store.Changed():
		case <-ctx.Done():
			return nil, store.View().Err
		}
	}
}
