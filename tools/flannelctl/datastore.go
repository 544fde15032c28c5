package flannelctl

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/kube"
	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// datastore holds flanneld's flags that choose the datastore.
type datastore struct {
	etcd      daemonflags.Etcd
	kube      daemonflags.Kube
	netConfig string
	timeout   time.Duration
}

// errAssigned is the error of commands that change records, on Kubernetes.
var errAssigned = errors.New("with --kube-subnet-mgr, Kubernetes assigns the subnets: a node has the pod CIDR of its " +
	"node object; kubectl delete node frees it, and no other program may change it")

// defineDatastore adds the flags to a command and all commands below it. They have the
// values of the environment unless the command line says otherwise.
func (a *app) defineDatastore(d *datastore, c *cobra.Command) {
	fs := flag.NewFlagSet("datastore", flag.ContinueOnError)
	d.etcd.Define(fs)
	d.kube.Define(fs)
	fs.StringVar(&d.netConfig, "net-config-path", daemonflags.NetConfig, "network config `file`, for --kube-subnet-mgr")
	c.PersistentFlags().AddGoFlagSet(fs)
	// The help shows the values of this moment: no password of the environment yet.
	a.complaints = daemonflags.FromEnv(fs, os.Getenv)
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

// snapshot reads all records once. The store is nil on Kubernetes.
func (d *datastore) snapshot(ctx context.Context) (snap *lease.Snapshot, store *etcd.Store, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if d.kube.On {
		snap, err = kube.List(ctx, kube.Options{
			URL: d.kube.URL, Kubeconfig: d.kube.Kubeconfig, UserAgent: "flannelctl/" + buildversion.Version(),
			AnnotationPrefix: d.kube.Annotations, ConfigFile: d.netConfig, Timeout: d.timeout,
		})
		return snap, nil, err
	}
	o := d.etcd.Options(d.etcd.URLs(), nil)
	o.Timeout = d.timeout / 2 // so that the reason of a failure is known in time
	store, err = etcd.Open(context.WithoutCancel(ctx), o)
	if err != nil {
		return nil, nil, err
	}
	for !store.View().Synced {
		select {
		case <-store.Changed():
		case <-ctx.Done():
			err := store.View().Err
			store.Close()
			return nil, nil, fmt.Errorf("read etcd at %s: %w", daemonflags.HideCredentials(d.etcd.Endpoints), err)
		}
	}
	return store.View().Snapshot, store, nil
}
