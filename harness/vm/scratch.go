package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// scratchName begins the names of scratch folders, below the folder for temporary files.
const scratchName = "flannel-vm."

// Scratch is a folder for the files of a running program. A program that is killed cannot
// remove its folder: the next program that makes one does.
type Scratch struct {
	Dir  string
	held *os.File // the folder, locked; the kernel ends the lock with the process
}

// NewScratch makes a folder, and removes those of programs that have ended.
func NewScratch() (*Scratch, error) {
	if err := Sweep(); err != nil {
		return nil, err
	}
	// The folder gets its name once it is locked: another program's sweep finds none without a lock.
	unnamed, err := os.MkdirTemp("", "."+scratchName)
	if err != nil {
		return nil, err
	}
	held, err := lock(unnamed)
	if err != nil {
		return nil, errors.Join(err, os.Remove(unnamed))
	}
	dir := filepath.Join(filepath.Dir(unnamed), strings.TrimPrefix(filepath.Base(unnamed), "."))
	if err := os.Rename(unnamed, dir); err != nil {
		return nil, errors.Join(err, held.Close(), os.Remove(unnamed))
	}
	return &Scratch{Dir: dir, held: held}, nil
}

// Remove removes the folder.
func (s *Scratch) Remove() error {
	err := os.RemoveAll(s.Dir)
	_ = s.held.Close() // a second call finds it closed
	return err
}

// lock opens and locks a folder, and nothing but a folder. The error is EWOULDBLOCK if another process has locked it.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}

// Sweep removes the folders of programs that have ended. It leaves the folders of other users, and those on another
// file system: a virtual machine sees the folder of the program that runs it, and not that program's lock.
func Sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), scratchName+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		f, err := lock(dir)
		if err != nil { // in use, of another user, or removed by another program
			continue
		}
		if !isOwn(f) {
			_ = f.Close()
			continue
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrPermission) {
			errs = append(errs, fmt.Errorf("remove the folder of a program that has ended: %w", err))
		}
		_ = f.Close()
	}
	return errors.Join(errs...)
}

// isOwn reports whether a folder below that for temporary files is this user's, and on the same file system.
func isOwn(dir *os.File) bool {
	var at, parent unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &at) != nil || unix.Stat(filepath.Dir(dir.Name()), &parent) != nil {
		return false
	}
	return int(at.Uid) == os.Geteuid() && at.Dev == parent.Dev
}
