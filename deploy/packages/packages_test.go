// Package packages_test checks the packages for plain hosts, which make packages builds.
package packages_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The directories of two builds of one commit. make test-packages names them.
var first, second = os.Getenv("FLANNEL_PACKAGES"), os.Getenv("FLANNEL_PACKAGES_AGAIN")

// needs skips a test that lacks the packages or programs.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if first == "" {
		t.Skip("needs the packages, which make test-packages builds")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs the program %s: apt-get install %s", program, program)
		}
	}
}

// built returns the one package of this architecture with an ending.
func built(t *testing.T, ending string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(first, "flannel*"+ending))
	if err != nil || len(paths) != 1 {
		t.Fatalf("want one package with the ending %s: %v, %v", ending, paths, err)
	}
	return paths[0]
}

// run runs a program that has to succeed, and returns what it prints.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// Two builds of one commit make the same files, for both architectures.
func TestReproducible(t *testing.T) {
	needs(t)
	hashes := func(dir string) map[string][32]byte {
		found := map[string][32]byte{}
		for _, ending := range []string{"deb", "rpm"} {
			paths, err := filepath.Glob(filepath.Join(dir, "flannel*."+ending))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				found[filepath.Base(path)] = sha256.Sum256(data)
			}
		}
		return found
	}
	a, b := hashes(first), hashes(second)
	if len(a) != 4 || len(b) != 4 {
		t.Fatalf("want four packages of each build: %d, %d", len(a), len(b))
	}
	for name, hash := range a {
		if b[name] != hash {
			t.Errorf("%s differs between two builds", name)
		}
	}
}

// The modes of the files, by path. Programs of each architecture are where the units
// look for them.
var modes = map[string]string{
	"/usr/sbin/flanneld":                                      "-rwxr-xr-x",
	"/usr/sbin/flanneld-etcd":                                 "-rwxr-xr-x",
	"/usr/sbin/flannelctl -> flanneld":                        "l",
	"/usr/sbin/flannel-cni":                                   "-rwxr-xr-x",
	"/usr/libexec/flannel/mk-docker-opts.sh":                  "-rwxr-xr-x",
	"/usr/lib/systemd/system/flanneld.service":                "-rw-r--r--",
	"/usr/share/flannel/docker.service.d/flannel.conf":        "-rw-r--r--",
	"/etc/flannel/flanneld.env":                               "-rw-------",
	"/etc/flannel/net-conf.json":                              "-rw-r--r--",
	"/usr/share/man/man8/flannelctl-docker-opts.8.gz":         "-rw-r--r--",
	"/usr/share/bash-completion/completions/flannelctl":       "-rw-r--r--",
	"/usr/share/fish/vendor_completions.d/flannelctl.fish":    "-rw-r--r--",
	"/usr/share/doc/flannel/hosts.md":                         "-rw-r--r--",
	"/usr/share/doc/flannel/copyright":                        "-rw-r--r--",
	"/usr/share/zsh/vendor-completions/_flannelctl (deb)":     "-rw-r--r--",
	"/usr/share/zsh/site-functions/_flannelctl (rpm)":         "-rw-r--r--",
	"/usr/lib/cni/flannel -> /usr/sbin/flannel-cni (deb)":     "l",
	"/usr/libexec/cni/flannel -> /usr/sbin/flannel-cni (rpm)": "l",
}

// checkList compares a list such as ls -l prints with the modes.
func checkList(t *testing.T, list, kind string) {
	t.Helper()
	have := map[string]string{}
	for line := range strings.Lines(list) {
		if at := strings.Index(line, " ./"); at >= 0 { // as tar writes it
			have[strings.TrimSpace(line[at+2:])] = line
		} else if at := strings.Index(line, " /"); at >= 0 {
			have[strings.TrimSpace(line[at:])] = line
		}
	}
	for path, mode := range modes {
		name, only, limited := strings.Cut(path, " (")
		if limited && only != kind+")" {
			continue
		}
		line, there := have[name]
		if !there {
			t.Errorf("the %s lacks %s", kind, name)
		} else if !strings.HasPrefix(line, mode) || !strings.Contains(line, "root") {
			t.Errorf("the %s has %q, want the mode %s", kind, line, mode)
		}
	}
}

func TestContents(t *testing.T) {
	const configs = "/etc/flannel/flanneld.env\n/etc/flannel/net-conf.json"
	t.Run("deb", func(t *testing.T) {
		needs(t, "dpkg-deb")
		for _, arch := range []string{"amd64", "arm64"} {
			deb := built(t, "_"+arch+".deb")
			checkList(t, run(t, "dpkg-deb", "-c", deb), "deb")
			if got := strings.TrimSpace(run(t, "dpkg-deb", "-I", deb, "conffiles")); got != configs {
				t.Errorf("conffiles: %s", got)
			}
			if got := strings.TrimSpace(run(t, "dpkg-deb", "-f", deb, "Architecture")); got != arch {
				t.Errorf("the package for %s says %s", arch, got)
			}
		}
	})
	t.Run("rpm", func(t *testing.T) {
		needs(t, "rpm")
		for _, arch := range []string{"x86_64", "aarch64"} {
			rpm := built(t, "."+arch+".rpm")
			checkList(t, run(t, "rpm", "-qlvp", rpm), "rpm")
			if got := strings.TrimSpace(run(t, "rpm", "-q", "--configfiles", "-p", rpm)); got != configs {
				t.Errorf("config files: %s", got)
			}
			if got := run(t, "rpm", "-q", "--queryformat", "%{ARCH}", "-p", rpm); got != arch {
				t.Errorf("the package for %s says %s", arch, got)
			}
		}
	})
}

// The scripts and the build are clean, in the judgement of shellcheck.
func TestScriptsAreChecked(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("needs the program shellcheck: apt-get install shellcheck")
	}
	scripts, err := filepath.Glob("???/p*")
	if err != nil || len(scripts) != 6 {
		t.Fatalf("want six scripts: %v, %v", scripts, err)
	}
	run(t, "shellcheck", append(scripts, "../../hack/packages")...)
}

// machine is this host's architecture in the words of dpkg and rpm.
func machine(t *testing.T) (deb, rpm string) {
	t.Helper()
	names := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	if names[runtime.GOARCH] == "" {
		t.Skipf("there is no package for %s", runtime.GOARCH)
	}
	return runtime.GOARCH, names[runtime.GOARCH]
}

// has fails the test unless exactly the wanted ones of these paths exist below root.
func has(t *testing.T, root string, want bool, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(filepath.Join(root, path)); (err == nil) != want {
			t.Errorf("%s: want it there: %v, but: %v", path, want, err)
		}
	}
}

// calls returns the calls of systemctl since the last time.
func calls(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(root, "systemctl.log")
	log, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return strings.Join(slices.Compact(strings.Split(string(bytes.TrimSpace(log)), "\n")), "; ")
}

// want compares what a step did with systemd.
func want(t *testing.T, root, step, expected string) {
	t.Helper()
	if got := calls(t, root); got != expected {
		t.Errorf("%s called systemctl %q, want %q", step, got, expected)
	}
}
