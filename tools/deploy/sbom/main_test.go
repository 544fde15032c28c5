package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// tree makes the files of an image: this test as its Go program, under two names, and the record of a package.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"opt/bin/flanneld": string(program), "opt/bin/flannel-cni": string(program), "usr/sbin/nft": "\x7fELF",
		"var/lib/dpkg/status.d/nftables": "Package: nftables\nStatus: install ok installed\nArchitecture: amd64\n" +
			"Version: 1:1.0.6-2+deb12u2\nDescription: a program\n Version: of a text\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The list has every module that the programs record, and every package, each with its places.
func TestListHasModulesAndPackages(t *testing.T) {
	bom, err := list(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || len(info.Deps) == 0 {
		t.Fatalf("this test has no modules: %v", info)
	}
	want := map[string]string{"nftables": "1:1.0.6-2+deb12u2", "stdlib": strings.TrimPrefix(info.GoVersion, "go"),
		info.Main.Path: info.Main.Version}
	for _, module := range info.Deps {
		want[module.Path] = module.Version
	}
	have := map[string]string{}
	for _, c := range *bom.Components {
		have[c.Name] = c.Version
		places := []cdx.EvidenceOccurrence{{Location: "/opt/bin/flannel-cni"}, {Location: "/opt/bin/flanneld"}}
		if c.Name == "nftables" {
			places = []cdx.EvidenceOccurrence{{Location: "/var/lib/dpkg/status.d/nftables"}}
			if want := "pkg:deb/debian/nftables@1:1.0.6-2%2Bdeb12u2?arch=amd64"; c.PackageURL != want {
				t.Errorf("the package is %s, want %s", c.PackageURL, want)
			}
		}
		if diff := cmp.Diff(&places, c.Evidence.Occurrences); diff != "" {
			t.Errorf("%s, places (-want +have):\n%s", c.Name, diff)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("versions (-want +have):\n%s", diff)
	}
}

// The text conforms to the schema of the standard, and is the same for the same files.
func TestListIsCycloneDX(t *testing.T) {
	root := tree(t)
	var texts [2]bytes.Buffer
	for i := range texts {
		bom, err := list(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := cdx.NewBOMEncoder(&texts[i], cdx.BOMFileFormatJSON).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() {
		t.Error("two lists of the same files differ")
	}
	document, err := jsonschema.UnmarshalJSON(&texts[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := standard(t).Validate(document); err != nil {
		t.Error(err)
	}
}

// standard compiles the schema of CycloneDX 1.6, which its Go module brings along.
func standard(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	const base = "http://cyclonedx.org/schema/"
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json",
		"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		text, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		schema, err := jsonschema.UnmarshalJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+name, schema); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile(base + "bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestNothingToList(t *testing.T) {
	dir := t.TempDir()
	if _, err := list(dir); err == nil || !strings.Contains(err.Error(), "has no Go program") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := list(filepath.Join(dir, "missing")); err == nil {
		t.Error("a folder that is not there is listed")
	}
}
