package packages_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The setup of the Vagrantfile's machines finds its files in the package, and starts the packaged unit with the
// settings of the machine.
func TestVagrant(t *testing.T) {
	needs(t, "dpkg")
	arch, _ := machine(t)
	root := newRoot(t)
	addPrograms(t, root, "mkdir", "cat", "chmod", "test", "install")
	dpkg := newDpkg(t, root)
	put(t, root, "tmp/flannel.deb", get(t, "/", built(t, "_"+arch+".deb")), 0o644)
	put(t, root, "usr/bin/apt-get", "#!/bin/sh\necho \"$@\" >>/apt-get.log\n", 0o755)
	put(t, root, "tmp/etcd.pem", "certificate", 0o644)
	put(t, root, "tmp/etcd-key.pem", "key", 0o644)
	put(t, root, "setup", get(t, "../host", "vagrant.sh"), 0o755)
	put(t, root, "usr/local/sbin/README", "", 0o644)   // Debian has the folder
	dpkg("-i", filepath.Join(root, "tmp/flannel.deb")) // as apt-get would
	calls(t, root)

	const settings = "FLANNELD_IFACE=192.168.56.11 FLANNELD_EMBED_ETCD=true"
	setup := func() {
		cmd := command("chroot", root, "/setup")
		cmd.Env = append(cmd.Env, "SETTINGS="+settings)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	setup()
	want(t, root, "the setup", "daemon-reload; enable flanneld; restart flanneld")
	const install = "update -q\ninstall -q -y --reinstall --allow-downgrades /tmp/flannel.deb\n"
	if got := get(t, root, "apt-get.log"); got != install {
		t.Errorf("the setup called apt-get %q, want %q", got, install)
	}
	const dropIn = "etc/systemd/system/flanneld.service.d/vagrant.conf"
	first := get(t, root, dropIn)
	if !strings.Contains(first, "\nEnvironment="+settings+"\n") {
		t.Errorf("the drop-in is %q", first)
	}
	setup()
	if again := get(t, root, dropIn); again != first {
		t.Errorf("the drop-in of a second setup is %q, want %q", again, first)
	}
	has(t, root, true, "usr/local/sbin/flannel-bridge", "etc/flannel/net-conf.json", "etc/flannel/etcd.pem",
		"etc/flannel/etcd-key.pem")
	verifyUnit(t, root)
}

// verifyUnit lets systemd judge the unit below root, with its drop-ins.
func verifyUnit(t *testing.T, root string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs the program systemd-analyze: apt-get install systemd")
	}
	for _, target := range []string{"sysinit", "basic", "shutdown", "multi-user", "network-online", "nss-lookup"} {
		put(t, root, "usr/lib/systemd/system/"+target+".target", "[Unit]\nDescription=stub\n", 0o644)
	}
	complaints := run(t, "systemd-analyze", "verify", "--man=no", "--root="+root, "flanneld.service")
	if complaints != "" {
		t.Error(complaints)
	}
}
