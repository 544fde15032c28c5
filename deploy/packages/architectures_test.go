package packages_test

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// programs are the files that differ between architectures.
var programs = []string{"/usr/sbin/flanneld", "/usr/sbin/flanneld-etcd", "/usr/sbin/flannel-cni"}

// unpacked returns a folder with the files of the .deb for an architecture.
func unpacked(t *testing.T, arch string) string {
	t.Helper()
	needs(t, "dpkg-deb")
	dir := t.TempDir()
	run(t, "dpkg-deb", "-x", built(t, "_"+arch+".deb"), dir)
	return dir
}

// describe returns a line for each file below root, with its mode, its content or target, and its time.
func describe(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var content string
		switch {
		case entry.Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		case entry.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			content = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		name := strings.TrimPrefix(path, root)
		if slices.Contains(programs, name) {
			content = "a program"
		}
		files[name] = fmt.Sprintf("%s %s %s", info.Mode(), content, info.ModTime().UTC())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "") // the folder of the test
	return files
}

// The packages of both architectures have the same files, except for the programs.
func TestArchitecturesHaveTheSameFiles(t *testing.T) {
	amd64, arm64 := describe(t, unpacked(t, "amd64")), describe(t, unpacked(t, "arm64"))
	if d := cmp.Diff(amd64, arm64); d != "" {
		t.Errorf("files of amd64 and arm64 (-amd64 +arm64):\n%s", d)
	}
	if len(amd64) < len(modes)/2 {
		t.Errorf("only %d files", len(amd64))
	}
}

// rpmFiles asks for a line for each file of an .rpm: its mode, its owner, what it is to the package manager, its path,
// its target, and the hash of its content.
const rpmFiles = `[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags} ` +
	`%{FILENAMES} %{FILELINKTOS} %{FILEDIGESTS}\n]`

func TestArchitecturesOfRPMs(t *testing.T) {
	needs(t, "rpm")
	names := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	texts := map[string]string{}
	for deb, arch := range names {
		text := run(t, "rpm", "-q", "--queryformat", rpmFiles, "-p", built(t, "."+arch+".rpm"))
		root := unpacked(t, deb)
		for _, program := range programs {
			hash := fmt.Sprintf("%x", sha256.Sum256([]byte(get(t, root, program))))
			if !strings.Contains(text, " "+program+"  "+hash+"\n") {
				t.Errorf("%s of the .rpm for %s is not that of the .deb:\n%s", program, arch, text)
			}
			text = strings.ReplaceAll(text, hash, "a program")
		}
		texts[deb] = text
	}
	if d := cmp.Diff(texts["amd64"], texts["arm64"]); d != "" {
		t.Errorf("files of the .rpm for amd64 and arm64 (-amd64 +arm64):\n%s", d)
	}
}

// control matches the fields that only the architecture decides.
var control = regexp.MustCompile(`(?m)^(Architecture|Installed-Size): .*\n`)

// The packages of both architectures say the same of themselves, and name their own one.
func TestArchitecturesSayTheSame(t *testing.T) {
	needs(t, "dpkg-deb", "rpm")
	const tags = `%{NAME} %{VERSION}-%{RELEASE} %{SUMMARY} %{DESCRIPTION} %{LICENSE} %{URL} %{GROUP} %{VENDOR} %{OS} ` +
		`[%{REQUIRES} ][%{PROVIDES} ][%{RECOMMENDS} ][%{SUGGESTS} ] %{PREIN} %{POSTIN} %{PREUN} %{POSTUN}`
	fields := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		text := run(t, "dpkg-deb", "-f", built(t, "_"+arch+".deb"))
		for _, line := range []string{"Package: flannel\n", "Architecture: " + arch + "\n", "Section: net\n",
			"Maintainer: flannel maintainers <flannel@localhost>\n", "Recommends: iproute2, iptables | nftables\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("the fields of the .deb for %s lack %q:\n%s", arch, line, text)
			}
		}
		fields[arch] = control.ReplaceAllString(text, "")
	}
	if d := cmp.Diff(fields["amd64"], fields["arm64"]); d != "" {
		t.Errorf("fields of the .deb (-amd64 +arm64):\n%s", d)
	}
	x86 := run(t, "rpm", "-q", "--queryformat", tags, "-p", built(t, ".x86_64.rpm"))
	arm := run(t, "rpm", "-q", "--queryformat", tags, "-p", built(t, ".aarch64.rpm"))
	if d := cmp.Diff(x86, strings.ReplaceAll(arm, "aarch-64", "x86-64")); d != "" {
		t.Errorf("tags of the .rpm (-x86_64 +aarch64):\n%s", d)
	}
}

// Each package has static programs of its architecture.
func TestProgramsAreOfTheirArchitecture(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		root := unpacked(t, arch)
		for _, program := range programs {
			file, err := elf.Open(filepath.Join(root, program))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if file.Class != elf.ELFCLASS64 || file.Machine != machine {
				t.Errorf("%s for %s is of %s, %s", program, arch, file.Class, file.Machine)
			}
			linked := func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }
			if slices.ContainsFunc(file.Progs, linked) {
				t.Errorf("%s for %s is not static", program, arch)
			}
		}
	}
}

// The programs for arm64 run, in the emulation of QEMU.
func TestArm64Runs(t *testing.T) {
	const emulator = "qemu-aarch64-static"
	needs(t)
	if _, err := exec.LookPath(emulator); err != nil {
		t.Skipf("needs the program %s: apt-get install qemu-user-static", emulator)
	}
	arm64, amd64 := unpacked(t, "arm64"), unpacked(t, "amd64")
	for _, c := range []struct{ program, arg, env, says string }{
		{"usr/sbin/flanneld", "--version", "", ""},
		{"usr/sbin/flanneld", "--help", "", "--iface"},
		{"usr/sbin/flanneld-etcd", "--version", "", ""},
		{"usr/sbin/flannelctl", "--help", "", "flannelctl"},
		{"usr/lib/cni/flannel", "", "CNI_COMMAND=VERSION", `"supportedVersions"`},
	} {
		says := func(root string, command ...string) string {
			command = append(command, program(t, root, c.program))
			cmd := exec.Command(command[0], append(command[1:], strings.Fields(c.arg)...)...)
			cmd.Env = append(os.Environ(), c.env)
			cmd.Stdin = strings.NewReader(`{"cniVersion":"1.1.0"}`)
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) == 0 || !strings.Contains(string(out), c.says) {
				t.Errorf("%s %s: %v: %s", c.program, c.arg, err, out)
			}
			return strings.ReplaceAll(string(out), root, "")
		}
		out := says(arm64, emulator)
		if runtime.GOARCH != "amd64" {
			continue
		}
		if d := cmp.Diff(says(amd64), out); d != "" {
			t.Errorf("%s %s (-amd64 +arm64):\n%s", c.program, c.arg, d)
		}
	}
}

// program returns the path of a program below root, under the name that is to run.
func program(t *testing.T, root, path string) string {
	t.Helper()
	target, err := os.Readlink(filepath.Join(root, path))
	if err == nil && filepath.IsAbs(target) {
		path = target
	}
	return filepath.Join(root, path)
}
