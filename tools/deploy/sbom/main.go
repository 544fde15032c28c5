// Command sbom lists what the files of an image consist of, as CycloneDX in JSON: the modules of each Go program, which
// the program itself records, and the Debian packages, from the records that deploy/firewall-tools makes.
//
//	sbom ROOT > flannel.cdx.json
//
// ROOT is a folder with the files of the image. Equal files make equal lists, so there is no time and no serial number.
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom ROOT")
		os.Exit(2)
	}
	bom, err := list(os.Args[1])
	if err == nil {
		err = cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// records is the folder in which an image without dpkg has a file for each Debian package.
const records = "/var/lib/dpkg/status.d/"

// parts are the components of an image by their package URL, and where each was found.
type parts map[string]*cdx.Component

// list returns the components of the files below root.
func list(root string) (*cdx.BOM, error) {
	found := parts{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		place := strings.TrimPrefix(path, strings.TrimSuffix(root, "/"))
		if strings.HasPrefix(place, records) {
			return found.addPackage(path, place)
		}
		return found.addProgram(path, place)
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", root, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no Go program and no record of a Debian package", root)
	}
	var components []cdx.Component
	for _, url := range slices.Sorted(maps.Keys(found)) {
		components = append(components, *found[url])
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeContainer, Name: "flannel"}}
	bom.Components = &components
	return bom, nil
}

// add counts a component in, or another place of one.
func (p parts) add(kind cdx.ComponentType, url *packageurl.PackageURL, place string) {
	key := url.ToString()
	if p[key] == nil {
		name := strings.TrimPrefix(url.Namespace+"/"+url.Name, "/")
		if url.Type == packageurl.TypeDebian {
			name = url.Name
		}
		p[key] = &cdx.Component{BOMRef: key, Type: kind, Name: name, Version: url.Version, PackageURL: key,
			Evidence: &cdx.Evidence{Occurrences: &[]cdx.EvidenceOccurrence{}}}
	}
	places := p[key].Evidence.Occurrences
	*places = append(*places, cdx.EvidenceOccurrence{Location: place})
}

// addProgram adds the modules of a Go program, and the standard library. Other files have none.
func (p parts) addProgram(path, place string) error {
	info, err := buildinfo.ReadFile(path)
	if unread := (*fs.PathError)(nil); errors.As(err, &unread) {
		return err
	}
	if err != nil {
		return nil // no Go program
	}
	p.add(cdx.ComponentTypeLibrary, packageurl.NewPackageURL(packageurl.TypeGolang, "", "stdlib",
		strings.TrimPrefix(info.GoVersion, "go"), nil, ""), place)
	p.addModule(cdx.ComponentTypeApplication, info.Main, place)
	for _, module := range info.Deps {
		p.addModule(cdx.ComponentTypeLibrary, *module, place)
	}
	return nil
}

func (p parts) addModule(kind cdx.ComponentType, module debug.Module, place string) {
	if module.Replace != nil {
		module = *module.Replace
	}
	namespace, name := "", module.Path
	if i := strings.LastIndexByte(module.Path, '/'); i >= 0 {
		namespace, name = module.Path[:i], module.Path[i+1:]
	}
	p.add(kind, packageurl.NewPackageURL(packageurl.TypeGolang, namespace, name, module.Version, nil, ""), place)
}

// addPackage adds a Debian package from its record.
func (p parts) addPackage(path, place string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ": ")
		if ok && !strings.HasPrefix(line, " ") {
			fields[name] = strings.TrimSpace(value)
		}
	}
	if fields["Package"] == "" || fields["Version"] == "" {
		return fmt.Errorf("%s: a record without Package or Version", path)
	}
	qualifiers := packageurl.Qualifiers{{Key: "arch", Value: fields["Architecture"]}}
	p.add(cdx.ComponentTypeLibrary, packageurl.NewPackageURL(packageurl.TypeDebian, "debian", fields["Package"],
		fields["Version"], qualifiers, ""), place)
	return nil
}
