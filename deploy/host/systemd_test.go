package host_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/internal/pace"
)

// boot makes a process the systemd of its namespaces, with a network of its own.
const boot = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
ip link set lo up
ip link add name uplink type veth peer name wire
ip address add 192.168.64.1/24 dev uplink
ip link set uplink up
ip link set wire up
ip route add default via 192.168.64.254
container=flannel-test exec /lib/systemd/systemd --system --unit=basic.target --log-target=console
`

// dockerd says which arguments it got, and that it is ready.
const dockerd = `#!/bin/sh
echo "$@" >/run/dockerd.args
systemd-notify --ready
exec sleep infinity
`

const dockerUnit = `[Unit]
Description=Docker
[Service]
Type=notify
NotifyAccess=all
ExecStart=/usr/bin/dockerd -H fd://
`

const settings = `FLANNELD_EMBED_ETCD=true
FLANNELD_NET_CONFIG_PATH=/etc/flannel/net-conf.json
FLANNELD_IP_MASQ=true
FLANNELD_IP_FORWARD=true
`

// disposable reports whether the root of this file system is the layer in memory of
// the machine of make test-vm. Only there may a test install units.
func disposable(t *testing.T) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.HasPrefix(line, "overlay / overlay ") && strings.Contains(line, "upperdir=/memory/") {
			return true
		}
	}
	return false
}

// host is a running systemd in namespaces of its own.
type host struct {
	t   *testing.T
	pid int
}

// run returns the output of a command on the host.
func (h host) run(command ...string) (string, error) {
	enter := []string{"-t", strconv.Itoa(h.pid), "-m", "-p", "-n", "--"}
	out, err := exec.Command("nsenter", append(enter, command...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must runs a command that has to succeed.
func (h host) must(command ...string) string {
	h.t.Helper()
	out, err := h.run(command...)
	if err != nil {
		journal, _ := h.run("journalctl", "--no-pager", "-n", "60")
		h.t.Fatalf("%v: %v: %s\n%s", command, err, out, journal)
	}
	return out
}

// start installs the units and starts a systemd.
func start(t *testing.T) host {
	t.Helper()
	for _, with := range []string{"", "-etcd"} {
		daemon, err := os.ReadFile(os.Getenv("FLANNEL_LAB_DAEMON") + with)
		if err != nil {
			t.Fatal(err)
		}
		write(t, "/", "usr/sbin/flanneld"+with, string(daemon), 0o755)
	}
	write(t, "/", "usr/libexec/flannel/mk-docker-opts.sh", read(t, "mk-docker-opts.sh"), 0o755)
	write(t, "/", "usr/bin/dockerd", dockerd, 0o755)
	write(t, "/", "etc/systemd/system/docker.service", dockerUnit, 0o644)
	write(t, "/", "etc/systemd/system/docker.service.d/flannel.conf", read(t, "docker.service.d/flannel.conf"), 0o644)
	write(t, "/", "etc/systemd/system/flanneld.service", read(t, "flanneld.service"), 0o644)
	write(t, "/", "etc/flannel/flanneld.env", settings, 0o600)
	write(t, "/", "etc/flannel/net-conf.json", `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`, 0o644)

	cmd := exec.Command("sh", "-c", boot)
	console := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // with it die all processes of its namespace
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(console)
		}
	})
	h := host{t, cmd.Process.Pid}
	NewWithT(t).Eventually(func() (string, error) {
		return h.run("systemctl", "is-active", "basic.target")
	}).WithTimeout(pace.Scale(30 * time.Second)).WithPolling(200 * time.Millisecond).Should(Equal("active"))
	return h
}

// A real systemd starts flanneld with the rights of the unit, which suffice for its
// device, its rules and its settings. Docker starts after it, with the subnet, and
// goes on while flanneld restarts.
func TestSystemd(t *testing.T) {
	if !disposable(t) {
		t.Skip("installs units, so it runs only in the machine of make test-vm")
	}
	g, h := NewWithT(t), start(t)
	h.must("systemctl", "start", "docker")

	g.Expect(h.must("systemctl", "is-active", "flanneld", "docker")).To(Equal("active\nactive"))
	g.Expect(h.must("ip", "link", "show", "flannel.1")).To(ContainSubstring("mtu 1450"))
	g.Expect(h.must("sysctl", "-n", "net.ipv4.ip_forward")).To(Equal("1"))
	g.Eventually(func() string { return h.must("systemctl", "show", "flanneld", "-p", "StatusText") }).
		WithTimeout(pace.Scale(30 * time.Second)).WithPolling(200 * time.Millisecond).
		Should(HavePrefix("StatusText=ready, subnet 10.5."))
	g.Expect(h.must("iptables-save")).To(ContainSubstring("MASQUERADE"))
	subnet := h.must("sh", "-c", ". /run/flannel/subnet.env; echo $FLANNEL_SUBNET")
	g.Expect(h.must("cat", "/run/dockerd.args")).To(Equal(
		"-H fd:// --containerd=/run/containerd/containerd.sock --bip=" + subnet + " --ip-masq=false --mtu=1450"))

	dockerPID := h.must("systemctl", "show", "docker", "-p", "MainPID")
	h.must("systemctl", "restart", "flanneld")
	g.Expect(h.must("systemctl", "show", "docker", "-p", "MainPID")).To(Equal(dockerPID))
	h.must("systemctl", "stop", "flanneld")
	g.Expect(h.must("systemctl", "show", "flanneld", "-p", "Result")).To(Equal("Result=success"))
	g.Expect(h.must("cat", "/run/flannel/subnet.env")).To(ContainSubstring("FLANNEL_SUBNET=" + subnet))
	h.must("ip", "link", "show", "flannel.1")

	h.must("systemctl", "stop", "docker")
	h.must("rm", "/run/flannel/subnet.env")
	const broken = "mkdir -p /run/systemd/system/flanneld.service.d && cd /run/systemd/system/flanneld.service.d && " +
		"printf '[Service]\nRestart=no\nExecStart=\nExecStart=/bin/false\n' >broken.conf"
	h.must("sh", "-c", broken)
	h.must("systemctl", "daemon-reload")
	out, err := h.run("systemctl", "start", "docker")
	g.Expect(err).To(HaveOccurred(), "Docker started without a subnet: %s", out)
}
