package dockerlab

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/internal/machine"
	"github.com/flanneld/flannel/internal/pause"
)

const (
	socket  = "/run/docker.sock"
	pidFile = "/run/docker.pid"
)

// Engine is the Docker engine of a node, or one for itself.
type Engine struct {
	Node    *harness.Node // nil for that of [NewBuilder]
	Options string        // further options of dockerd, as DOCKER_OPTS of the host
	// Tool makes the options for dockerd with flannelctl instead of the script.
	Tool bool
	// Plain starts dockerd without the drop-in, so without flannel's subnet and without the image of this package.
	Plain bool

	name      string
	machine   *machine.Machine
	dropIn    dropIn
	libraries string // the variable that names the folders of libraries
	loaded    bool   // the image
}

// startContainerd starts containerd and waits until it answers.
func (e *Engine) startContainerd(ctx context.Context) error {
	if err := e.machine.Daemon(ctx, "containerd", e.libraries, "containerd"); err != nil {
		return err
	}
	return e.await(ctx, "containerd", func() error {
		_, err := e.machine.Run(ctx, "ctr", "--connect-timeout=1s", "version")
		return err
	})
}

// await repeats an attempt until it succeeds.
func (e *Engine) await(ctx context.Context, daemon string, attempt func() error) error {
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s of %s: %w; its log:\n%s", daemon, e.name, err, e.machine.LogTail(daemon))
		}
	}
}

// script returns the shell script that starts dockerd.
func (e *Engine) script() string {
	d := e.dropIn
	if e.Plain {
		return d.plain(e.Options)
	}
	if e.Tool {
		_, arguments, _ := strings.Cut(d.before, " ")
		d.before = toolPath + " docker-opts " + arguments
	}
	return d.script(e.Options)
}

// Start starts dockerd as its unit with the drop-in does, and waits until it answers. The
// first time it loads the image.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.machine.Daemon(ctx, "dockerd", e.libraries, "sh", "-ec", e.script()); err != nil {
		return err
	}
	if err := e.await(ctx, "dockerd", func() error {
		_, err := e.Docker(ctx, "version")
		return err
	}); err != nil || e.loaded || e.Plain {
		return err
	}
	_, err := e.Docker(ctx, "load", "--quiet", "--input="+imagePath)
	e.loaded = err == nil
	return err
}

// Stop ends dockerd as systemd does, and waits for its end.
func (e *Engine) Stop(ctx context.Context) error { return e.end(ctx, "TERM") }

// Kill ends dockerd at once, and waits for its end.
func (e *Engine) Kill(ctx context.Context) error { return e.end(ctx, "KILL") }

func (e *Engine) end(ctx context.Context, signal string) error {
	script := fmt.Sprintf("pid=$(cat %s)\nkill -%s $pid\ntail --pid=$pid -f /dev/null\nrm -f %s", pidFile, signal, pidFile)
	_, err := e.machine.Run(ctx, "sh", "-ec", script)
	return err
}

// Docker runs the client with these arguments and returns its output.
func (e *Engine) Docker(ctx context.Context, args ...string) (string, error) {
	out, err := e.machine.Run(ctx, append([]string{"docker", "--host=unix://" + socket}, args...)...)
	return strings.TrimSpace(out), err
}

// Exec runs a program in a container and returns its output.
func (e *Engine) Exec(ctx context.Context, container string, args ...string) (string, error) {
	return e.Docker(ctx, append([]string{"exec", container}, args...)...)
}

// Addr returns the address of a running container.
func (e *Engine) Addr(ctx context.Context, container string) (netip.Addr, error) {
	out, err := e.Docker(ctx, "inspect", "--format={{.NetworkSettings.IPAddress}}", container)
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(out)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("container %s of %s has no address: %w", container, e.name, err)
	}
	return addr, nil
}

// Variables returns the text of the file with the options for dockerd.
func (e *Engine) Variables(ctx context.Context) (string, error) {
	return e.machine.Run(ctx, "cat", e.dropIn.file)
}

// LogTail returns the end of dockerd's log.
func (e *Engine) LogTail() string { return e.machine.LogTail("dockerd") }
