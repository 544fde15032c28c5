package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
)

// The subnet file is for every program on the host, the state file for the daemon alone.
const (
	subnetFileMode = 0o644
	stateFileMode  = 0o600
	dirMode        = 0o755
)

// readPrevious reads the subnet that a former run announced.
func readPrevious(path string, log func(node.Event)) lease.Key {
	return subnetfile.Previous(readFormer("subnet file", path, log))
}

// readSaved reads what a former run knew of the store, from the first of the
// paths at which there is a file.
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

// readFormer reads a file of a former run. A file that cannot be read counts as
// absent, with a warning: it would only have spared the node some work.
func readFormer(what, path string, log func(node.Event)) []byte {
	data, err := os.ReadFile(path)
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
	path, mode := a.opts.SubnetFile, fs.FileMode(subnetFileMode)
	switch w.File {
	case node.SubnetFile:
	case node.StateFile:
		if path, mode = a.opts.StateFile, stateFileMode; path == "" {
			return nil
		}
	default:
		panic(fmt.Sprintf("agent: unknown file %d", w.File))
	}
	data, err := w.Content()
	if err != nil {
		return err
	}
	return replaceFile(path, data, mode)
}

// replaceFile puts a whole new file in the place of path, with exactly that
// mode, making its directory if there is none.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// Not renameio.WriteFile: it keeps the mode of the old file.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(mode))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, f.Cleanup()))
	}
	return nil
}

// makeDir makes the directory, whose mode no umask narrows, if it is missing.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	return os.Chmod(dir, dirMode)
}
