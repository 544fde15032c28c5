package dockeropts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/flanneld/flannel/internal/files"
)

// fileMode lets every user read the file: it holds no secret.
const fileMode = 0o644

// Read returns the values of the subnet file at path.
func Read(path string) (Subnet, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Subnet{}, fmt.Errorf("cannot read the subnet file %s: is flanneld running, and does it hold a subnet? %w",
			path, err)
	}
	return Parse(path, string(text))
}

// Write replaces the file at path as a whole. It writes into what is no plain file,
// such as a pipe, which cannot be replaced.
func Write(path string, data []byte) error {
	info, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, fileMode)
	}
	return files.Replace(path, data, fileMode)
}
