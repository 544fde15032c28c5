package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// sysctlFile returns the file of a setting, which must lie below /proc/sys.
func sysctlFile(path string) (string, error) {
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("path %q leaves /proc/sys: %w", path, driver.ErrInvalid)
	}
	return filepath.Join("/proc/sys", path), nil
}

// readSysctl returns false for a setting that does not exist.
func readSysctl(path string) (string, bool, error) {
	if link, is := dataplane.TxChecksumOf(path); is {
		return readTxChecksum(link)
	}
	file, err := sysctlFile(path)
	if err != nil {
		return "", false, err
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return strings.TrimSpace(string(b)), err == nil, err
}

// writeSysctl sets a value. A setting is never made or deleted: it comes and
// goes with its link.
func writeSysctl(verb dataplane.Verb, s dataplane.Sysctl) error {
	if verb == dataplane.Delete {
		return fmt.Errorf("a setting cannot be deleted: %w", driver.ErrUnsupported)
	}
	if link, is := dataplane.TxChecksumOf(s.Path); is {
		return writeTxChecksum(link, s.Value)
	}
	file, err := sysctlFile(s.Path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		// A container with /proc/sys read-only has most settings as they are wanted.
		if have, exists, _ := readSysctl(s.Path); exists && have == s.Value {
			return nil
		}
		return err
	}
	_, err = f.WriteString(s.Value)
	return errors.Join(err, f.Close())
}
