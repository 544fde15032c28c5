package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/internal/files"
)

// Every program on the host may read the subnet file; only the daemon may read
// the state file.
const (
	subnetFileMode = 0o644
	stateFileMode  = 0o600
	dirMode        = 0o755
)

// readPrevious reads the subnet that the last run announced.
func readPrevious(path string, log func(node.Event)) lease.Key {
	return subnetfile.Previous(readFormer("subnet file", path, log))
}

// readSaved reads the state file of the last run, from the first of the paths
// that has a file.
func readSaved(paths []string, log func(node.Event)) []byte {
	for _, path := range paths {
		if path == "" {
			continue
		}
		if data := readFormer("state file", path, log); data != nil {
			return data
		}
	}
	return nil
}

// readFormer reads a file of the last run. An unreadable file counts as absent,
// with a warning: the node works without it.
func readFormer(what, path string, log func(node.Event)) []byte {
	data, err := files.ReadRegular(path, files.MostOwn)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log(node.Event{Kind: "file-unreadable", Level: node.Warning,
			Text: fmt.Sprintf("%s of a former run is not used: %v", what, err)})
	}
	return data
}

// write replaces the files in order.
func (a *agent) write(writes []node.Write) node.Wrote {
	errs := make([]error, len(writes))
	for i, w := range writes {
		errs[i] = a.replace(w)
	}
	return node.Wrote{Errs: errs}
}

func (a *agent) replace(w node.Write) error {
	var path string
	var mode fs.FileMode
	switch w.File {
	case node.SubnetFile:
		path, mode = a.opts.SubnetFile, subnetFileMode
	case node.StateFile:
		path, mode = a.opts.StateFile, stateFileMode
		if path == "" {
			return nil
		}
	default:
		panic(fmt.Sprintf("agent: unknown file %d", w.File))
	}
	if w.Remove {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := w.Content()
	if err != nil {
		return err
	}
	return replaceFile(path, data, mode)
}

// replaceFile replaces the file at path atomically by one with exactly this
// mode. It makes the directory if it is missing.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := errors.Join(makeDir(dir), makeWay(path)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := files.Replace(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// makeWay removes an empty directory at the path of a file, such as Docker makes for a mount of a
// file that does not exist yet.
func makeWay(path string) error {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("a directory is in its place; remove it: %w", err)
	}
	return nil
}

// makeDir makes the directory if it is missing. Its mode does not depend on the umask.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	return os.Chmod(dir, dirMode)
}
