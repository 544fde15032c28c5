// Package dumptest reads the archives of flannelctl dump in tests.
package dumptest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// Files returns the files of an archive, without the folder that holds them all.
func Files(t testing.TB, archive io.Reader) map[string]string {
	t.Helper()
	unpacked, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(unpacked); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		folder, name, inside := strings.Cut(header.Name, "/")
		if !inside || folder == "" {
			t.Fatalf("%s is in no folder", header.Name)
		}
		files[name] = string(text)
	}
}
