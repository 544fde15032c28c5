package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	collect       = "../../deploy/collect"
	firewallTools = "../../deploy/firewall-tools"
)

// image returns a directory with what the image gets of firewall tools.
func image(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"nft", "xtables-nft-multi", "xtables-legacy-multi"} {
		if _, err := os.Stat("/usr/sbin/" + program); err != nil {
			t.Skip("needs the tools that the image gets: apt-get install nftables iptables")
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command(firewallTools, dir).CombinedOutput(); err != nil {
		t.Fatalf("firewall-tools: %v: %s", err, out)
	}
	return dir
}

// alone runs a program of the image where there is nothing else, in a network of its own.
func alone(dir, stdin, program string, args ...string) (string, error) {
	cmd := exec.Cmd{
		Path: "/usr/sbin/" + program, Args: append([]string{program}, args...), Env: []string{}, Dir: "/",
		Stdin: strings.NewReader(stdin), SysProcAttr: &syscall.SysProcAttr{Chroot: dir, Cloneflags: syscall.CLONE_NEWNET},
	}
	if os.Getuid() != 0 { // only root of some namespace may change its root
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The image holds nft and iptables of both kinds, under each name that the daemon
// looks for, and they run where there is nothing else.
func TestFirewallToolsRunAlone(t *testing.T) {
	dir := image(t)
	want := map[string]string{"nft": "nftables v", "iptables": "nf_tables", "ip6tables": "nf_tables"}
	for _, program := range []string{"iptables", "ip6tables"} {
		want[program+"-nft"], want[program+"-legacy"] = "nf_tables", "legacy"
	}
	for program, about := range want {
		names := []string{program}
		if program != "nft" {
			names = append(names, program+"-save", program+"-restore")
		}
		for _, name := range names {
			if out, err := alone(dir, "", name, "--version"); err != nil || !strings.Contains(out, about) {
				t.Errorf("%s --version: %v: %s", name, err, out)
			}
		}
	}
}

// The extensions that flannel's rules use are there too.
func TestImageMakesTheRules(t *testing.T) {
	dir := image(t)
	const rules = "*nat\n-A POSTROUTING -m mark --mark 0x4000/0x4000 -m comment --comment flanneld -j RETURN\n" +
		"-A POSTROUTING ! -d 224.0.0.0/4 -m addrtype --src-type LOCAL -m comment --comment flanneld -j MASQUERADE " +
		"--random-fully\nCOMMIT\n" +
		"*filter\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n"
	if out, err := alone(dir, rules, "iptables-restore", "--test"); err != nil {
		t.Errorf("iptables-restore: %v: %s", err, out)
	}
	v6 := strings.Replace(rules, "224.0.0.0/4", "ff00::/8", 1)
	if out, err := alone(dir, v6, "ip6tables-restore", "--test"); err != nil {
		t.Errorf("ip6tables-restore: %v: %s", err, out)
	}
}

// There is no shell, and the image takes at most 42 MB. Packages html/template, text/template or any
// other that looks methods up by name would add 6 MB to flanneld, an etcd inside it 13 MB.
func TestImageIsSmall(t *testing.T) {
	size := int64(0)
	for _, program := range []string{"flanneld", "flannel-cni"} {
		info, err := os.Stat(programs + program)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	err := filepath.WalkDir(image(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if name := e.Name(); name == "sh" || name == "bash" || name == "dash" || name == "busybox" {
			t.Errorf("the image holds %s", path)
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the image takes %d KB", size>>10)
	if size > 42_000_000 {
		t.Errorf("the image takes %d bytes", size)
	}
}

// The packages of all programs and libraries are recorded, with their versions, and no others.
func TestImageRecordsItsPackages(t *testing.T) {
	dir := image(t)
	records := filepath.Join(dir, "var/lib/dpkg/status.d")
	entries, err := os.ReadDir(records)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(records, e.Name()))
		if err != nil || !strings.HasPrefix(string(text), "Package: "+e.Name()+"\n") ||
			!strings.Contains(string(text), "\nVersion: ") {
			t.Errorf("record %s: %v, %.80s", e.Name(), err, text)
		}
		recorded[e.Name()] = true
	}
	search := []string{"--search"}
	for _, pattern := range []string{"usr/sbin/*", "lib/*/*.so*", "usr/lib/*/xtables/*.so", "lib64/*"} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well formed
		for _, path := range paths {
			file := strings.TrimPrefix(path, dir)
			search = append(search, file, "/usr"+file)
		}
	}
	out, _ := exec.Command("dpkg-query", search...).Output() // it fails, since it knows one path of each pair
	used := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		owner, _, _ := strings.Cut(line, ":")
		used[owner] = true
	}
	if diff := cmp.Diff(used, recorded); diff != "" || !used["nftables"] || !used["iptables"] || !used["libc6"] {
		t.Errorf("packages (-of files +recorded):\n%s", diff)
	}
}

// Root with the capabilities of the daemon's container runs the image's programs, whose files belong to
// another user, and can change none of them.
func TestContainersRootReadsTheImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give files to another user")
	}
	dir := image(t)
	flanneld, err := os.ReadFile(programs + "flanneld")
	if err != nil {
		t.Fatal(err) // make build makes it
	}
	err = errors.Join(os.MkdirAll(filepath.Join(dir, "opt/bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "opt/bin/flanneld"), flanneld, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 65532, 65532))
	})
	if err != nil {
		t.Fatal(err)
	}
	caps := rendered(t).Spec.Template.Spec.Containers[0].SecurityContext.Capabilities.Add
	for _, name := range []string{"opt/bin/flanneld", "usr/sbin/nft", "usr/sbin/iptables", "usr/sbin/iptables-legacy"} {
		out, err := confined(append(caps, "SYS_CHROOT"), "chroot", dir, "/"+name, "--version")
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		file, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := confined(caps, "touch", file); err == nil || !strings.Contains(out, "Permission denied") {
			t.Errorf("change %s: %v: %s", name, err, out)
		}
	}
}

func TestCollectWantsAFile(t *testing.T) {
	out, err := exec.Command(collect, "/no/such/program", t.TempDir()).CombinedOutput()
	if want := "collect: /no/such/program is not there\n"; err == nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}
