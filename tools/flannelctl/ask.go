package flannelctl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/internal/hostpaths"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/output"
)

// asking holds the flags of the commands that ask a daemon.
type asking struct {
	subnetFile, address string
	kubernetes
	watch    bool
	interval time.Duration

	chosen *daemon.Client // once it is known
}

// define adds the flags to a command.
func (f *asking) define(cmd *cobra.Command) {
	f.defineDaemon(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&f.watch, "watch", "w", false, "print the result again and again, until Ctrl-C")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "`time` between two results of --watch")
}

// defineDaemon adds the flags that say which daemon to ask.
func (f *asking) defineDaemon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.subnetFile, "subnet-file", hostpaths.SubnetFile,
		"the `file` in the flags of the flanneld to ask, whose socket lies beside it")
	flags.StringVar(&f.address, "address", "",
		"ask another host's flanneld at the `address` of its health listener, such as 10.0.0.3:8081; "+
			"it answers other hosts if it runs with --healthz-status")
	f.defineKubernetes(flags)
	cmd.MarkFlagsMutuallyExclusive("node", "address")
}

// client returns the client of the daemon that the flags name. It always returns the same one.
func (f *asking) client() *daemon.Client {
	if f.chosen == nil {
		f.chosen = f.choose()
	}
	return f.chosen
}

func (f *asking) choose() *daemon.Client {
	switch {
	case f.node != "":
		return f.onNode()
	case f.address != "":
		return daemon.Remote(f.address)
	}
	return daemon.Local(f.subnetFile)
}

// show prints the answer of a daemon, repeatedly with --watch.
func (a *app) show(ctx context.Context, f *asking, ask func(context.Context) (finding, error)) error {
	if !f.watch {
		return a.showOnce(ctx, ask)
	}
	ticker := time.NewTicker(max(f.interval, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		if a.Color && a.Format == output.Table {
			fmt.Fprint(a.Out, "\x1b[H\x1b[2J") // clears the screen
		}
		result, err := ask(ctx)
		switch {
		case err == nil:
			err = a.printFound(result)
			if err != nil && err != errTrouble {
				return err // no further result can be written either
			}
		case ctx.Err() == nil:
			fmt.Fprintf(a.stderr, "flannelctl: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// showOnce prints the answer, and returns errTrouble if it shows trouble.
func (a *app) showOnce(ctx context.Context, ask func(context.Context) (finding, error)) error {
	result, err := ask(ctx)
	if err != nil {
		return err
	}
	return a.printFound(result)
}
