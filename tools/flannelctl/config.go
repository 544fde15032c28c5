package flannelctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/netconfig"
	"github.com/flanneld/flannel/tools/output"
)

func (a *app) config() *cobra.Command {
	d := &datastore{}
	c := &cobra.Command{
		Use:   "config",
		Short: "Read, check and write the network config",
		Long: "config reads, checks and writes the network config in etcd, with flanneld's own flags. With " +
			"--kube-subnet-mgr the config is the file --net-config-path, which comes from the ConfigMap kube-flannel-cfg.",
	}
	a.defineDatastore(d, c)
	var compare bool
	validate := &cobra.Command{
		Use: "validate FILE", Args: cobra.ExactArgs(1),
		Short: "Check a config as a node would; - reads standard input",
		Long: "validate prints the error or the warnings that a node would log about a config, and what the config means. " +
			"It asks no datastore, unless --compare is given.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.validateConfig(c.Context(), d, args[0], compare)
		},
	}
	validate.Flags().BoolVar(&compare, "compare", false, "also tell what would change, with the leases in the datastore")
	c.AddCommand(validate,
		&cobra.Command{
			Use: "get", Args: cobra.NoArgs,
			Short: "Print the config as it is stored; it may hold a pre-shared key",
			RunE:  func(c *cobra.Command, _ []string) error { return a.getConfig(c.Context(), d) },
		},
		&cobra.Command{
			Use: "set FILE", Args: cobra.ExactArgs(1),
			Short: "Store a valid config, unless the stored one has changed meanwhile; - reads standard input",
			RunE:  func(c *cobra.Command, args []string) error { return a.setConfig(c.Context(), d, args[0]) },
		})
	return c
}

// readInput reads a file, or standard input.
func readInput(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}

func (a *app) getConfig(ctx context.Context, d *datastore) error {
	var data []byte
	var err error
	if d.kube.On {
		data, err = os.ReadFile(d.netConfig)
	} else {
		var snap *lease.Snapshot
		snap, err = d.stored(ctx)
		if err == nil && snap.Config.Revision == 0 {
			err = d.noConfig()
		}
		if err == nil {
			data = snap.Config.Data
		}
	}
	if err != nil {
		return err
	}
	return a.Print(document(data))
}

// noConfig says where a config is missing.
func (d *datastore) noConfig() error {
	if d.servers.Servers != "" {
		return errors.New("the datastore of the servers holds no config of this network")
	}
	prefix, err := d.prefix()
	if err != nil {
		return err
	}
	return fmt.Errorf("the datastore holds no network config at %s/config", prefix)
}

// stored reads the datastore once.
func (d *datastore) stored(ctx context.Context) (*lease.Snapshot, error) {
	snap, store, err := d.snapshot(ctx)
	if store != nil {
		store.Close()
	}
	return snap, err
}

func (a *app) validateConfig(ctx context.Context, d *datastore, path string, compare bool) error {
	data, err := readInput(path)
	if err != nil {
		return err
	}
	var snap *lease.Snapshot
	if compare {
		snap, err = d.stored(ctx)
	}
	if err != nil {
		return err
	}
	return a.printFound(netconfig.Check(data, d.kube.On, snap))
}

func (a *app) setConfig(ctx context.Context, d *datastore, path string) error {
	if d.kube.On {
		return errors.New("with --kube-subnet-mgr the config is a file of every node: change net-conf.json in the " +
			"ConfigMap kube-flannel-cfg, for example with kubectl -n kube-flannel edit configmap kube-flannel-cfg")
	}
	data, err := readInput(path)
	if err != nil {
		return err
	}
	snap, store, err := d.changeable(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	data, err = netconfig.Following(data, snap.Config.Data)
	if err != nil {
		return err
	}
	report := netconfig.Check(data, false, snap)
	if report.Valid {
		if err := store.SetConfig(ctx, data, snap.Config.Revision); err != nil {
			return err
		}
		report.Stored = true
		a.warnOfCommands(d, data)
	}
	return a.printFound(report)
}

// warnOfCommands says that nodes refuse a config, if they use the datastore without a credential as this command does.
func (a *app) warnOfCommands(d *datastore, data []byte) {
	reached := d.etcd
	urls, _ := d.endpoints()
	reached.Endpoints = strings.Join(urls, ",")
	if err := node.CheckCommands(data); err != nil && !reached.Protected() {
		fmt.Fprintf(a.stderr, "flannelctl: nodes that reach the datastore without a credential, as this command does, keep "+
			"the former config: %v\n", err)
	}
}

// document is a config as it is stored.
type document []byte

// MarshalJSON returns the document itself if it is JSON, else its text.
func (d document) MarshalJSON() ([]byte, error) { return jsonOrText(d) }

// Text prints the document as it is.
func (d document) Text(p *output.Page) { p.Document(d) }
