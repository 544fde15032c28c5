package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockDir claims the data directory as long as the returned file is open.
// Without it a second server would silently wait for the end of the first, and
// no context could end that wait.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%s is in use by another server", dir)
		} else {
			err = fmt.Errorf("lock data directory: %w", err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
