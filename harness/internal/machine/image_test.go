package machine

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// parts reads an archive.
func parts(t *testing.T, r io.Reader) map[string]*tar.Header {
	t.Helper()
	headers := map[string]*tar.Header{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
	}
}

// tree makes the files of an image.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	err := errors.Join(os.MkdirAll(filepath.Join(root, "bin"), 0o700),
		os.WriteFile(filepath.Join(root, "bin/busybox"), []byte("program"), 0o700),
		os.Symlink("busybox", filepath.Join(root, "bin/sh")))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestTreeIsALayer(t *testing.T) {
	layer, err := os.Create(filepath.Join(t.TempDir(), "layer"))
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	if err := writeTree(layer, tree(t), 65532); err != nil {
		t.Fatal(err)
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	headers := parts(t, layer)
	if got, want := slices.Sorted(maps.Keys(headers)), []string{"bin", "bin/busybox", "bin/sh"}; !slices.Equal(got, want) {
		t.Fatalf("the layer has %v, want %v", got, want)
	}
	for name, h := range headers {
		if h.Uid != 65532 || h.Gid != 65532 {
			t.Errorf("%s belongs to %d:%d, want 65532", name, h.Uid, h.Gid)
		}
	}
	if h := headers["bin"]; h.Mode&0o777 != 0o755 {
		t.Errorf("the folder has mode %o, want 755 whatever the umask", h.Mode)
	}
	if h := headers["bin/busybox"]; h.Mode&0o777 != 0o755 || h.Size != 7 {
		t.Errorf("the program has mode %o and size %d", h.Mode, h.Size)
	}
	if h := headers["bin/sh"]; h.Typeflag != tar.TypeSymlink || h.Linkname != "busybox" {
		t.Errorf("the link is of type %c and leads to %q", h.Typeflag, h.Linkname)
	}
}

func TestArchiveNamesTheImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	names := []string{"registry.example/a:1", "registry.example/b:2"}
	if err := (Image{Root: tree(t), Names: names, Entrypoint: []string{"/bin/sh"}}).Archive(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := tar.NewReader(file)
	if _, err := archive.Next(); err != nil {
		t.Fatal(err)
	}
	var manifest []struct{ RepoTags, Layers []string }
	if err := json.NewDecoder(archive).Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 ||
		!slices.Equal(manifest[0].RepoTags, names) ||
		!slices.Equal(manifest[0].Layers, []string{"layer.tar"}) {
		t.Errorf("the manifest is %+v", manifest)
	}
}
