package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// ballast is the name of the file that fills a disk.
const ballast = "ballast"

// FillDisk gives one of the node's files a disk of its own and fills it: until
// FreeDisk no write to it succeeds.
func (n *Node) FillDisk(file string) error {
	dir := filepath.Dir(file)
	if err := n.giveDisk(dir); err != nil {
		return fmt.Errorf("node %s: give %s a disk of its own: %w", n.Name, dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ballast), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("node %s: fill a disk: %w", n.Name, err)
	}
	defer f.Close()
	for page := make([]byte, os.Getpagesize()); err == nil; {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("node %s: fill a disk: %w", n.Name, err)
	}
	return nil
}

// FreeDisk undoes FillDisk.
func (n *Node) FreeDisk(file string) error {
	err := os.Remove(filepath.Join(filepath.Dir(file), ballast))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("node %s: free a disk: %w", n.Name, err)
	}
	return nil
}

// giveDisk mounts a small disk over a directory and copies the directory's
// content.
func (n *Node) giveDisk(dir string) error {
	if slices.Contains(n.disks, dir) {
		return nil
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // the directory's path below the disk
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	n.disks = append(n.disks, dir)
	return os.CopyFS(dir, os.DirFS(fmt.Sprintf("/proc/self/fd/%d", fd)))
}

// takeDisks undoes giveDisk.
func (n *Node) takeDisks() error {
	var errs []error
	for _, d := range n.disks {
		if err := unix.Unmount(d, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("node %s: take the disk from %s: %w", n.Name, d, err))
		}
	}
	n.disks = nil
	return errors.Join(errs...)
}
