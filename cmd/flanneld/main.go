package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/buildversion"
	"github.com/flanneld/flannel/internal/daemonflags"
	"github.com/flanneld/flannel/tools/flannelctl"
)

// The exit statuses (interop 1.4). Go itself ends a panic with 2 as well.
const (
	statusOK      = 0
	statusFailed  = 1
	statusBadFlag = 2
)

// gcPercent is how much the heap may grow between two collections, in percent,
// unless GOGC is set. Compared with Go's 100 it takes 4 MB off the peak at 5,000
// peers, and costs at most 3 % of the CPU time of a start (docs/benchmarks.md).
const gcPercent = 70

func main() {
	name := filepath.Base(os.Args[0])
	if name == "flannelctl" {
		os.Exit(flannelctl.Main())
	}
	if copiers[name] != "" {
		os.Exit(copyFile(name, os.Args[1:], os.Stderr))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	logTo(os.Stderr)
	status := flanneld(os.Args, os.Getenv, os.Stderr)
	klog.Flush()
	os.Exit(status)
}

// flanneld runs the daemon and returns its exit status.
func flanneld(args []string, getenv func(string) string, stderr io.Writer) int {
	o := options{getenv: getenv}
	flags := o.define()
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		help(stderr, args[0], flags)
		return statusOK
	case err != nil:
		// The error comes last, just above the prompt, where users read it.
		help(stderr, args[0], flags)
		fmt.Fprintf(stderr, "\nflanneld: %s\n", parseError(err))
		return statusBadFlag
	case o.version:
		fmt.Fprintln(stderr, buildversion.Version())
		return statusOK
	}
	complaints := daemonflags.FromEnv(flags, getenv)
	if err := o.ensureEtcd(); err != nil {
		klog.Errorf("exit status %d: %v", statusFailed, err)
		return statusFailed
	}
	for _, complaint := range complaints {
		klog.Error(complaint)
	}
	klog.Infof("flanneld %s; %s", buildversion.Version(), describe(flags))
	if err := releaseProgram(); err != nil {
		klog.Warningf("using some 8 MB more: %v", err)
	}

	ctx, release := untilSignal()
	defer release()
	exit := start(ctx, &o)
	if exit.Status != statusOK {
		klog.Errorf("exit status %d: %s", exit.Status, exit.Reason)
		return exit.Status
	}
	klog.Infof("%s", exit.Reason)
	return statusOK
}

// untilSignal returns a context that the first signal ends. A second one kills
// at once.
func untilSignal() (ctx context.Context, release func()) {
	ctx, release = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release)
	return ctx, release
}

// start runs the daemon if the flags make sense.
func start(ctx context.Context, o *options) node.Exit {
	if o.installCNI {
		return o.runInstallCNI(ctx)
	}
	if err := o.check(); err != nil {
		return failed(err)
	}
	if o.servers.listen != "" {
		return serve(ctx, o)
	}
	return daemon(ctx, o)
}

func failed(err error) node.Exit {
	return node.Exit{Status: statusFailed, Reason: err.Error()}
}
