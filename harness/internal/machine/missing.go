package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Missing reports what machines need and this system lacks. It tries it in a folder, which it makes and removes;
// the folder must not be on an overlay.
func Missing(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("needs root, for cgroups and the mounts of containers")
	}
	group, err := NewGroup("flannel-check")
	if err == nil {
		err = group.Close()
	}
	if err != nil {
		return fmt.Errorf("needs cgroups: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, part := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o755); err != nil {
			return err
		}
	}
	root := filepath.Join(dir, "root")
	layers := fmt.Sprintf("lowerdir=/,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	if err := unix.Mount("overlay", root, "overlay", 0, layers); err != nil {
		return fmt.Errorf("needs overlay file systems: %w", err)
	}
	return unix.Unmount(root, 0)
}
