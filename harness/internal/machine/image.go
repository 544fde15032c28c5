package machine

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Image describes a container image of one layer.
type Image struct {
	Root       string   // the folder with its files
	Names      []string // with their tags
	Entrypoint []string
	Cmd        []string
	Path       string // the variable
	Owner      int    // user and group of all files
}

// Archive writes the image to a file, in the format of docker save.
func (i Image) Archive(path string) error {
	layer, err := os.CreateTemp(filepath.Dir(path), "layer-*")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	sum := sha256.New()
	if err := writeTree(io.MultiWriter(layer, sum), i.Root, i.Owner); err != nil {
		return fmt.Errorf("image %s: %w", i.Names[0], err)
	}
	id := hex.EncodeToString(sum.Sum(nil))
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Cmd": i.Cmd, "Env": []string{"PATH=" + i.Path}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + id}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{
		{"Config": "config.json", "RepoTags": i.Names, "Layers": []string{"layer.tar"}},
	})
	if err != nil {
		return err
	}
	out, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer out.Close()
	if err := writeImage(out, layer, config, manifest); err != nil {
		return fmt.Errorf("image %s: %w", i.Names[0], err)
	}
	return os.Rename(path+".new", path)
}

// writeImage writes the three parts of an image.
func writeImage(out io.Writer, layer *os.File, config, manifest []byte) error {
	w := tar.NewWriter(out)
	for _, part := range []struct {
		name string
		data []byte
	}{{"manifest.json", manifest}, {"config.json", config}} {
		if err := w.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.data))}); err != nil {
			return err
		}
		if _, err := w.Write(part.data); err != nil {
			return err
		}
	}
	size, err := layer.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: size}); err != nil {
		return err
	}
	if _, err := io.Copy(w, layer); err != nil {
		return err
	}
	return w.Close()
}

// writeTree writes a folder as a layer. All files belong to owner and have no time, so
// equal files make equal layers.
func writeTree(out io.Writer, root string, owner int) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return writeEntry(w, path, name, owner, entry)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// writeEntry writes a file, a folder or a symbolic link.
func writeEntry(w *tar.Writer, path, name string, owner int, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err = os.Readlink(path)
		if err != nil {
			return err
		}
	}
	full, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header := tar.Header{Typeflag: full.Typeflag, Name: name, Linkname: target, Mode: readable(full.Mode), Size: full.Size,
		Uid: owner, Gid: owner}
	if err := w.WriteHeader(&header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}

// readable lets everyone read and execute what the owner may, whatever the umask was when the file was made:
// a container's root without DAC_OVERRIDE has no other right to files of another user.
func readable(mode int64) int64 {
	return mode | mode&0o500>>3 | mode&0o500>>6
}
