package firewall

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const deploy = "../../../deploy/"

// packageOf maps programs to the Debian packages that hold them.
var packageOf = map[string]string{
	"nft": "nftables", "xtables-nft-multi": "iptables", "xtables-legacy-multi": "iptables",
}

// TestImageHasThePrograms: the image installs the packages of all programs that
// the driver looks for, and holds the programs in its $PATH.
func TestImageHasThePrograms(t *testing.T) {
	text, err := os.ReadFile(deploy + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) []string {
		t.Helper()
		found := regexp.MustCompile("(?m)^" + pattern + "$").FindSubmatch(text)
		if found == nil {
			t.Fatalf("the Dockerfile has no line %s", pattern)
		}
		return strings.FieldsFunc(string(found[1]), func(r rune) bool { return r == ' ' || r == ':' })
	}
	installed := find("RUN apt-get update && apt-get install -y --no-install-recommends (.*)")
	find("COPY deploy/collect (deploy/firewall-tools) /")
	root := find("RUN /firewall-tools (.*)")[0]
	if got := find("COPY --from=tools --chown=65532:65532 (.*) /")[0]; got != root {
		t.Errorf("the tools are in %s, and the image copies %s", root, got)
	}
	path := find("ENV PATH=(.*)")

	needed := map[string]bool{}
	dir := imageTools(t)
	for _, name := range programNames() {
		file := findIn(dir, path, name)
		if file == "" {
			t.Errorf("the image has no %s in its $PATH", name)
			continue
		}
		program := packageOf[filepath.Base(file)]
		if program == "" {
			t.Errorf("which package holds %s?", file)
		}
		needed[program] = true
	}
	slices.Sort(installed)
	if want := slices.Sorted(maps.Keys(needed)); !slices.Equal(installed, want) {
		t.Errorf("the image installs %q, and the programs need %q", installed, want)
	}
}

// imageTools returns a directory with the firewall's programs as the image has them.
func imageTools(t *testing.T) string {
	t.Helper()
	for program := range packageOf {
		if _, err := os.Stat("/usr/sbin/" + program); err != nil {
			t.Skipf("SKIPPED: no %s here (make deps installs it as root)", program)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command(deploy+"firewall-tools", dir).CombinedOutput(); err != nil {
		t.Fatalf("firewall-tools: %v: %s", err, out)
	}
	return dir
}

// findIn returns the program that a name leads to in a directory with a $PATH, or "".
func findIn(dir string, path []string, name string) string {
	for _, p := range path {
		if file, err := filepath.EvalSymlinks(filepath.Join(dir, p, name)); err == nil {
			return file
		}
	}
	return ""
}
