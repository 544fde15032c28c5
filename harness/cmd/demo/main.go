// Demo shows flannel at work on this machine, in network namespaces that vanish
// when it ends. Run it by "make demo".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/demo"
)

func main() {
	harness.Reexec()
	o := demo.Options{Out: os.Stdout}
	flag.StringVar(&o.Daemon, "flanneld", "bin/flanneld", "`path` of the daemon to show")
	flag.StringVar(&o.Tool, "flannelctl", "bin/flannelctl", "`path` of the operator's tool to show")
	flag.BoolVar(&o.Hold, "hold", os.Getenv("HOLD") == "1", "stay up until Ctrl-C, and say how to enter the nodes")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo.Run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
