package cluster

import (
	"context"
	"fmt"
	"os"
)

const runtimeSocket = "/run/containerd/containerd.sock"

// containerdConfig works without the right to lower a process's OOM score.
func containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = %q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = %q
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
`, runtimeSocket, pauseImage)
}

// startContainerd starts the runtime. The first time it also installs the plugins that
// flannel's plugin calls, as a distribution does, and imports the images.
func (n *Node) startContainerd(ctx context.Context, first bool) error {
	config := n.Name + ".containerd.toml"
	if err := os.WriteFile(n.cluster.path("files", config), []byte(containerdConfig()), 0o644); err != nil {
		return err
	}
	if err := n.daemon(ctx, "containerd", "containerd", "--config="+file(config)); err != nil {
		return err
	}
	if err := n.cluster.await(ctx, "containerd of "+n.Name, func(ctx context.Context) error {
		_, err := n.Run(ctx, "ctr", "--connect-timeout=1s", "version")
		return err
	}); err != nil {
		return fmt.Errorf("%w; its log:\n%s", err, n.LogTail("containerd"))
	}
	if !first {
		return nil
	}
	if _, err := n.Run(ctx, "sh", "-ec", "mkdir -p /opt/cni/bin && cd "+pluginsDir+
		" && cp bridge host-local portmap loopback /opt/cni/bin"); err != nil {
		return err
	}
	for _, image := range n.cluster.archives() {
		if err := n.load(ctx, image); err != nil {
			return err
		}
	}
	return nil
}
