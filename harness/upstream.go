package harness

import (
	"context"
	"fmt"
	"os"
)

// UpstreamEnv is the variable that names upstream's own flanneld, as make bin/upstream-flanneld builds it.
const UpstreamEnv = "FLANNEL_LAB_UPSTREAM"

// StartUpstream starts upstream's daemon on the node in place of this project's, with the same datastore and subnet
// file and the lab's own arguments, and waits until it has written that file. Its log is appended to Log; Stop and Kill
// end it.
func (n *Node) StartUpstream(ctx context.Context, program string) (err error) {
	if n.Running() {
		return fmt.Errorf("node %s: start upstream: a daemon runs already", n.Name)
	}
	args := append([]string{
		program,
		"--etcd-endpoints=" + n.lab.Store.nodeEndpoint(),
		"--etcd-prefix=" + Prefix,
		"--subnet-file=" + n.SubnetFile(),
		"--healthz-ip=127.0.0.1",
		fmt.Sprintf("--healthz-port=%d", healthPort),
	}, n.lab.Options.DaemonArgs...)
	former, _ := os.Stat(n.SubnetFile()) // nil: there is none
	n.proc, err = n.launchAs(args, n.LogFile())
	if err != nil {
		return err
	}
	err = n.Await(ctx, "upstream's subnet file", func() (bool, error) {
		if !n.Running() {
			return false, fmt.Errorf("node %s: upstream's daemon does not run (%v)", n.Name, n.ExitStatus())
		}
		now, err := os.Stat(n.SubnetFile())
		return err == nil && (former == nil || !os.SameFile(former, now)), nil
	})
	if err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, n.LogTail(20))
	}
	return nil
}
