package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// command returns a command that is root, if need be in a user namespace: only root
// may change the root of its scripts.
func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C")
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	return cmd
}

// put writes a file below root.
func put(t *testing.T, root, path, text string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, root, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newRoot makes the root of a host that runs systemd: a shell, the programs that the
// scripts need, and a systemctl that notes its calls.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	addPrograms(t, root, "dash", "find", "rm", "rmdir")
	if err := os.Symlink("dash", filepath.Join(root, "bin/sh")); err != nil {
		t.Fatal(err)
	}
	put(t, root, "usr/bin/systemctl", "#!/bin/sh\necho \"$@\" >>/systemctl.log\n", 0o755)
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// addPrograms puts programs of this host below root, with their libraries.
func addPrograms(t *testing.T, root string, programs ...string) {
	t.Helper()
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skipf("needs the program %s of Debian", program)
		}
		run(t, "../collect", path, root)
		name, dir := filepath.Base(path), filepath.Dir(path)
		for _, other := range []string{"/bin", "/usr/bin"} { // one folder on most hosts, and two here
			if other != dir {
				run(t, "../collect", path, root)
				put(t, root, filepath.Join(other, name), get(t, root, path), 0o755)
			}
		}
	}
}

// newDpkg gives root the files of a dpkg without packages, and returns a function that calls it.
func newDpkg(t *testing.T, root string) func(args ...string) {
	t.Helper()
	for _, file := range []string{"status", "available", "triggers/File"} {
		put(t, root, filepath.Join("var/lib/dpkg", file), "", 0o644)
	}
	put(t, root, "var/lib/dpkg/info/format", "1\n", 0o644)
	if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg/updates"), 0o755); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) {
		t.Helper()
		run(t, "dpkg", append([]string{"--root=" + root, "--force-confold"}, args...)...)
	}
}

// newer returns the package with a later version and another net-conf.json.
func newer(t *testing.T, deb string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "flannel")
	run(t, "dpkg-deb", "-R", deb, dir)
	control := get(t, dir, "DEBIAN/control")
	version := strings.TrimSpace(run(t, "dpkg-deb", "-f", deb, "Version"))
	put(t, dir, "DEBIAN/control", strings.ReplaceAll(control, "Version: "+version, "Version: 99"), 0o644)
	put(t, dir, "etc/flannel/net-conf.json", "{\"Network\":\"10.9.0.0/16\"}\n", 0o644)
	put(t, dir, "etc/flannel/flanneld.env", "FLANNELD_V=1\n", 0o600)
	later := dir + ".deb"
	run(t, "dpkg-deb", "-Znone", "--root-owner-group", "-b", dir, later)
	return later
}

// state puts what a flanneld leaves on its host below root.
func state(t *testing.T, root string) {
	t.Helper()
	put(t, root, "var/lib/flannel/run/flannel/subnet.env.state", "state\n", 0o600)
	put(t, root, "var/lib/flannel/etcd/member/snap/db", "leases\n", 0o600)
	put(t, root, "run/flannel/subnet.env", "FLANNEL_SUBNET=10.5.1.1/24\n", 0o644)
}

// A Debian host installs, upgrades, removes and purges the package. The operator's
// changes and the state stay until they are purged, and the leases even then.
func TestDebian(t *testing.T) {
	needs(t, "dpkg")
	arch, _ := machine(t)
	deb, root := built(t, "_"+arch+".deb"), newRoot(t)
	dpkg := newDpkg(t, root)

	dpkg("-i", deb)
	want(t, root, "the installation", "daemon-reload")
	if out := run(t, "chroot", root, "/usr/sbin/flannelctl", "version"); !strings.Contains(out, "flannelctl") {
		t.Errorf("flannelctl version: %s", out)
	}
	has(t, root, true, "usr/sbin/flanneld", "usr/lib/systemd/system/flanneld.service")

	put(t, root, "etc/flannel/flanneld.env", "FLANNELD_IFACE=eth1\n", 0o600)
	state(t, root)
	dpkg("-i", newer(t, deb))
	want(t, root, "the upgrade", "daemon-reload; --no-block try-restart flanneld.service")
	if got := get(t, root, "etc/flannel/flanneld.env"); got != "FLANNELD_IFACE=eth1\n" {
		t.Errorf("the upgrade has replaced the operator's settings by %q", got)
	}
	if got := get(t, root, "etc/flannel/net-conf.json"); !strings.Contains(got, "10.9.0.0/16") {
		t.Errorf("the upgrade has left the old example: %q", got)
	}

	dpkg("-r", "flannel")
	want(t, root, "the removal", "disable --now flanneld.service; daemon-reload")
	has(t, root, false, "usr/sbin/flanneld", "usr/lib/systemd/system/flanneld.service", "usr/lib/cni/flannel")
	has(t, root, true, "etc/flannel/flanneld.env", "var/lib/flannel/run", "run/flannel/subnet.env")

	dpkg("-P", "flannel")
	want(t, root, "the purge", "daemon-reload")
	has(t, root, false, "etc/flannel", "var/lib/flannel/run", "run/flannel")
	has(t, root, true, "var/lib/flannel/etcd/member/snap/db")
}

// The scripts succeed where systemctl does not, as in an image that is built: its root has the folder of systemd and
// no bus.
func TestDebianWithoutBus(t *testing.T) {
	needs(t, "dpkg")
	arch, _ := machine(t)
	deb, root := built(t, "_"+arch+".deb"), newRoot(t)
	put(t, root, "usr/bin/systemctl", "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n", 0o755)
	dpkg := newDpkg(t, root)
	dpkg("-i", deb)
	dpkg("-i", newer(t, deb))
	dpkg("-r", "flannel")
	dpkg("-P", "flannel")
	has(t, root, false, "usr/sbin/flanneld", "etc/flannel")
}

// A purge keeps every etcd, whatever its folder is called, and removes the state behind a link. The link stays.
func TestDebianPurge(t *testing.T) {
	needs(t, "dpkg")
	arch, _ := machine(t)
	deb, root := built(t, "_"+arch+".deb"), newRoot(t)
	dpkg := newDpkg(t, root)
	dpkg("-i", deb)
	state(t, root)
	put(t, root, "var/lib/flannel/leases/member/snap/db", "leases\n", 0o600)
	put(t, root, "var/lib/flannel/deep/er/member/snap/db", "leases\n", 0o600)
	folder, link := filepath.Join(root, "srv/flannel"), filepath.Join(root, "var/lib/flannel")
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link, folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/srv/flannel", link); err != nil {
		t.Fatal(err)
	}
	dpkg("-P", "flannel")
	has(t, root, true, "srv/flannel/etcd/member/snap/db", "srv/flannel/leases/member/snap/db",
		"srv/flannel/deep/er/member/snap/db")
	has(t, root, false, "srv/flannel/run", "run/flannel")
	if _, err := os.Lstat(link); err != nil {
		t.Error("the purge has removed the operator's link to the state")
	}
}
