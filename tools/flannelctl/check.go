package flannelctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/firewall"
	"github.com/flanneld/flannel/internal/daemonflags"
	"github.com/flanneld/flannel/internal/noredirect"
	"github.com/flanneld/flannel/tools/check"
	"github.com/flanneld/flannel/tools/daemon"
)

// checkFlags are the flags of the command check.
type checkFlags struct {
	datastore datastore
	files     hostFiles
	config    string
}

func (a *app) check() *cobra.Command {
	f := &checkFlags{}
	c := &cobra.Command{
		Use:   "check",
		Short: "Find what keeps flannel from working here, before and after install",
		Long: "check looks at the kernel, its settings, interfaces, ports, rules, other programs and files, and asks a " +
			"running flanneld whether its peers answer, and prints one line for each: ok, warning or failure, with the " +
			"command that repairs it. The network config comes " +
			"from --config, else from the datastore if a flag or a variable names it, else from the state file of " +
			"the last run. Run it as root.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runCheck(c, f) },
	}
	a.defineDatastore(&f.datastore, c)
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "network config `file`; - reads standard input")
	f.files.define(flags)
	return c
}

func (a *app) runCheck(c *cobra.Command, f *checkFlags) error {
	named := c.Flags().Changed("etcd-endpoints") || os.Getenv("FLANNELD_ETCD_ENDPOINTS") != "" ||
		f.datastore.servers.Servers != ""
	report, err := f.report(c.Context(), named)
	if err != nil {
		return err
	}
	return a.printFound(report)
}

// report looks at the host. Named means that a flag or a variable names an etcd or servers.
func (f *checkFlags) report(ctx context.Context, named bool) (*check.Report, error) {
	s := check.Sources{
		Daemons: daemon.Processes, SubnetFile: f.files.subnetFile, CNIConf: f.files.cniConf, Assigned: f.datastore.kube.On,
		Folders: []string{filepath.Dir(f.files.subnetFile)}, Daemon: f.askDaemon,
	}
	if paths := f.files.statePaths(); len(paths) > 0 {
		s.Folders = append(s.Folders, filepath.Dir(paths[0]))
	}
	config, err := f.readConfig(ctx, named)
	fromStore := named && f.config == "" && !f.datastore.kube.On
	switch {
	case err != nil && (!fromStore || errors.As(err, new(usageError))):
		return nil, err
	case err != nil: // the host itself can be judged
		s.Store.Err = err
		config = f.savedConfig()
	}
	s.Config = config
	if named {
		s.Time = f.clock()
		s.Store.Complaints = f.complaints(ctx)
	}
	// A lane that cannot be opened is one of the findings.
	if host, err := linux.New(ctx, nil); err == nil {
		defer host.Close()
		s.Host = host
	}
	if filter, err := firewall.New(ctx); err == nil {
		defer filter.Close()
		s.Firewall = filter
	}
	if kernel, closeAll, err := openKernel(ctx); err == nil {
		defer closeAll()
		s.Kernel = kernel
	}
	return &check.Report{Findings: check.Gather(ctx, s).Findings()}, nil
}

// askDaemon asks the daemon of this host.
func (f *checkFlags) askDaemon(ctx context.Context) (s node.Status, peers []node.Peer, err error) {
	client := daemon.Local(f.files.subnetFile)
	all, err := client.Peers(ctx)
	if err == nil {
		s, err = client.Status(ctx)
	}
	return s, all.Peers, err
}

// readConfig returns the network config, nil if none is known.
func (f *checkFlags) readConfig(ctx context.Context, named bool) ([]byte, error) {
	switch {
	case f.config != "":
		return readInput(f.config)
	case f.datastore.kube.On:
		return os.ReadFile(f.datastore.netConfig)
	case named:
		snap, err := f.datastore.stored(ctx)
		if err != nil {
			return nil, err
		}
		return snap.Config.Data, nil
	}
	return f.savedConfig(), nil
}

// complaints returns what the members of the etcd that the flags name say against it.
func (f *checkFlags) complaints(ctx context.Context) (all []string) {
	if f.datastore.kube.On || f.datastore.servers.Servers != "" {
		return nil
	}
	endpoints, _ := f.datastore.endpoints()
	o := f.datastore.etcd.Options(endpoints, nil)
	o.Timeout = f.datastore.timeout / 2
	store, err := etcd.Open(context.WithoutCancel(ctx), o)
	if err != nil {
		return nil // the read of the config says why
	}
	defer store.Close()
	for _, e := range endpoints {
		complaints, err := store.Complaints(ctx, e)
		if err != nil {
			continue // as does that of a member alone: the others carry on
		}
		for _, c := range complaints {
			all = append(all, daemonflags.HideCredentials(e)+" says "+c)
		}
	}
	return all
}

// savedConfig returns the network config of the daemon's last run, nil if none is known.
func (f *checkFlags) savedConfig() []byte {
	for _, path := range f.files.statePaths() {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // no daemon has run, or only root may read it
		}
		if last, err := node.SavedMarks(data); err == nil {
			return last.Config
		}
	}
	return nil
}

// clock returns what asks etcd for its time; nil: nothing does. A socket has the clock of this host, and an etcd with
// TLS may demand a certificate.
func (f *checkFlags) clock() func(context.Context) (time.Time, error) {
	endpoint := f.datastore.etcd.URLs()[0]
	plain := strings.HasPrefix(endpoint, "http://")
	if !plain || f.datastore.kube.On || f.datastore.servers.Servers != "" {
		return nil
	}
	return func(ctx context.Context) (time.Time, error) { return timeAt(ctx, endpoint) }
}

// timeAt asks a server for its time.
func timeAt(ctx context.Context, url string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/version", nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the datastore for its time: %w", err)
	}
	answer, err := noredirect.Client(http.DefaultClient).Do(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the datastore for its time: %w", err)
	}
	defer answer.Body.Close()
	at, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the datastore for its time: the answer of %s has no date: %w", url, err)
	}
	return at, nil
}
