package charon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/internal/files"
)

// places are where charon may be, in order, after $PATH (interop 6.6).
var places = []string{
	"/usr/lib/strongswan/charon", "/usr/lib/ipsec/charon",
	"/usr/libexec/strongswan/charon", "/usr/libexec/ipsec/charon",
}

// Find returns the path of the program: the given one, or the first in $PATH and the usual places.
func Find(given string) (string, error) { return find(given, places) }

func find(given string, places []string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("--charon-exec-path: %w", err)
		}
		return path, nil
	}
	for _, name := range append([]string{"charon"}, places...) {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no charon on PATH nor at %s; install strongSwan's charon and its plugin vici "+
		"(Debian: strongswan-charon, strongswan-swanctl), or name the program with --charon-exec-path: %w",
		strings.Join(places, ", "), driver.ErrUnsupported)
}

// endTime is how long a child has to end after SIGTERM.
const endTime = 3 * time.Second

// child is a running program.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed at the end
	err   error         // how it ended; read it after ended
}

// start starts the program.
func start(path, config string, log io.Writer) (*child, error) {
	c := &child{cmd: exec.Command(path), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "STRONGSWAN_CONF="+config)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	// SIGKILL leaves the keys in the kernel: packets go on while this process restarts.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		defer close(c.ended)
		runtime.LockOSThread() // the kernel sends Pdeathsig at the end of the thread
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// alive reports whether the program runs.
func (c *child) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// stop ends the program in order, or by force if it takes too long.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// plugins are those that the contract's proposals and VICI need. Charon skips
// the ones that are not installed.
const plugins = "random nonce openssl aes sha1 sha2 hmac kdf gcm gmp drbg curve25519 kernel-netlink socket-default vici"

// writeConfig writes the child's configuration, which names the control socket.
func writeConfig(path, socket string) error {
	if strings.ContainsAny(socket, "\"\n\\") {
		return fmt.Errorf("socket %q: has characters that a configuration cannot hold: %w", socket, driver.ErrInvalid)
	}
	text := fmt.Sprintf(`# Written by flanneld for the charon that it starts.
charon {
	load_modular = no
	load = %s
	install_routes = no
	install_virtual_ip = no
	filelog {
		stderr {
			default = 0
		}
	}
	plugins {
		vici {
			socket = "unix://%s"
		}
	}
}
`, plugins, socket)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return files.Replace(path, []byte(text), 0o600)
}

// answer is the pause between two attempts to reach a socket that does not exist yet.
const answer = 50 * time.Millisecond

// until calls try until it succeeds, the child ends, or the context does.
func (c *child) until(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(answer)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-c.ended:
			return fmt.Errorf("charon ended at once (%w); its messages are in the log", errors.Join(c.err, err))
		case <-ctx.Done():
			return fmt.Errorf("charon runs and does not answer: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// isAbsent reports whether nothing listens at a socket.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
