package packages_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newRPM returns a function that runs the real rpm on a root. The root has a shell, of which rpm does not know.
func newRPM(t *testing.T, root string) func(args ...string) string {
	t.Helper()
	return func(args ...string) string {
		t.Helper()
		if args[0] != "-q" {
			args = append(args, "--nodeps")
		}
		return run(t, "rpm", append([]string{"--root=" + root}, args...)...)
	}
}

// laterRPM returns the package with a later version and other files in /etc/flannel. It has the files and scripts
// of the real one.
func laterRPM(t *testing.T, pkg, arch, root string) string {
	t.Helper()
	query := func(format string) string { return run(t, "rpm", "-q", "--queryformat", format, "-p", pkg) }
	dir := t.TempDir()
	put(t, dir, "files/etc/flannel/net-conf.json", "{\"Network\":\"10.9.0.0/16\"}\n", 0o644)
	put(t, dir, "files/etc/flannel/flanneld.env", "FLANNELD_V=1\n", 0o600)
	spec := "Name: flannel\nVersion: 99\nRelease: 1\nSummary: later\nLicense: later\nAutoReqProv: no\n" +
		"%description\nlater\n"
	for _, script := range []string{"post", "preun", "postun"} {
		tag := map[string]string{"post": "POSTIN", "preun": "PREUN", "postun": "POSTUN"}[script]
		spec += "%" + script + "\n" + strings.ReplaceAll(query("%{"+tag+"}"), "%", "%%") + "\n"
	}
	spec += "%install\ncp -a " + dir + "/files/. %{buildroot}\n%files\n%defattr(-,root,root)\n"
	for line := range strings.Lines(query(`[%{FILEMODES:perms} %{FILENAMES}\n]`)) {
		mode, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(path, "/etc/flannel/"):
			spec += "%config(noreplace) " + path + "\n"
		case mode[0] == 'd':
			spec += "%dir " + path + "\n"
		default:
			spec += path + "\n"
			put(t, filepath.Join(dir, "files"), path, "later\n", 0o755)
		}
	}
	put(t, dir, "flannel.spec", spec, 0o644)
	run(t, "rpmbuild", "-bb", "--quiet", "--target="+arch, "--define=_topdir "+dir+"/top",
		"--define=__os_install_post %{nil}", "--define=_build_id_links none", "--root=/", dir+"/flannel.spec")
	return filepath.Join(dir, "top/RPMS", arch, "flannel-99-1."+arch+".rpm")
}

// tree lists the files below root, without those of rpm's database.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if name == "var/lib/rpm" || name == "root/.rpmdb" { // Debian's rpm has its database in the home of root
			return fs.SkipDir
		}
		files = append(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A host with rpm installs, upgrades and erases the package. The operator's changes and the state stay, and
// nothing else does.
func TestRPM(t *testing.T) {
	needs(t, "rpm", "rpmbuild")
	_, arch := machine(t)
	pkg, root := built(t, "."+arch+".rpm"), newRoot(t)
	before, rpm := tree(t, root), newRPM(t, root)
	if needs := run(t, "rpm", "-q", "--requires", "-p", pkg); !strings.Contains(needs, "/bin/sh\n") {
		t.Errorf("the package has scripts and does not need a shell: %s", needs)
	}

	rpm("-i", pkg)
	want(t, root, "the installation", "daemon-reload")
	has(t, root, true, "usr/sbin/flanneld", "usr/libexec/cni/flannel", "etc/flannel/net-conf.json")
	if out := rpm("-V", "flannel"); out != "" {
		t.Errorf("the installed files are not those of the package: %s", out)
	}
	if out := run(t, "chroot", root, "/usr/sbin/flannelctl", "version"); !strings.Contains(out, "flannelctl") {
		t.Errorf("flannelctl version: %s", out)
	}

	put(t, root, "etc/flannel/flanneld.env", "FLANNELD_IFACE=eth1\n", 0o600)
	state(t, root)
	rpm("-U", laterRPM(t, pkg, arch, root))
	want(t, root, "the upgrade", "daemon-reload; --no-block try-restart flanneld.service")
	for path, text := range map[string]string{
		"etc/flannel/flanneld.env":        "FLANNELD_IFACE=eth1\n",
		"etc/flannel/flanneld.env.rpmnew": "FLANNELD_V=1\n",
		"etc/flannel/net-conf.json":       "{\"Network\":\"10.9.0.0/16\"}\n",
		"usr/sbin/flanneld":               "later\n",
	} {
		if got := get(t, root, path); got != text {
			t.Errorf("after the upgrade %s is %q, want %q", path, got, text)
		}
	}
	if got := rpm("-q", "flannel"); got != fmt.Sprintf("flannel-99-1.%s\n", arch) {
		t.Errorf("after the upgrade rpm has %s", got)
	}

	rpm("-e", "flannel")
	want(t, root, "the removal", "disable --now flanneld.service; daemon-reload")
	left := slices.DeleteFunc(tree(t, root), func(path string) bool {
		info, err := os.Lstat(filepath.Join(root, path))
		shared := err == nil && info.IsDir() && !strings.Contains(path, "flannel") // they belong to the system
		return slices.Contains(before, path) || shared || path == "systemctl.log"
	})
	stay := []string{
		"etc/flannel", "etc/flannel/flanneld.env.rpmnew", "etc/flannel/flanneld.env.rpmsave",
		"run/flannel", "run/flannel/subnet.env",
		"var/lib/flannel", "var/lib/flannel/etcd", "var/lib/flannel/etcd/member",
		"var/lib/flannel/etcd/member/snap", "var/lib/flannel/etcd/member/snap/db",
		"var/lib/flannel/run", "var/lib/flannel/run/flannel", "var/lib/flannel/run/flannel/subnet.env.state",
	}
	if d := cmp.Diff(stay, left); d != "" {
		t.Errorf("files after the removal (-want +got):\n%s", d)
	}
}

// Without systemd, as in the build of an image, and with one that fails, the package is installed and erased all
// the same.
func TestRPMWithoutSystemd(t *testing.T) {
	needs(t, "rpm")
	_, arch := machine(t)
	pkg, root := built(t, "."+arch+".rpm"), newRoot(t)
	rpm := newRPM(t, root)
	run(t, "rm", "-r", filepath.Join(root, "run/systemd"))
	rpm("-i", pkg)
	rpm("-e", "flannel")
	want(t, root, "an installation without systemd", "")

	put(t, root, "run/systemd/system/x", "", 0o644)
	put(t, root, "usr/bin/systemctl", "#!/bin/sh\nexit 1\n", 0o755)
	rpm("-i", pkg)
	rpm("-U", "--replacepkgs", pkg)
	rpm("-e", "flannel")
	has(t, root, false, "usr/sbin/flanneld", "usr/lib/systemd/system/flanneld.service", "etc/flannel")
}
