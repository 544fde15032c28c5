// Package files writes files so that a full disk and a kill at any moment leave a whole one: the old or the new.
//
// It knows no content.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// attempts is how often Replace starts again after another process has removed its temporary file as a leftover. That
// happens between its creation and its lock, and on a busy machine several times in a row.
const attempts = 100

// errTaken means that another process has just opened the temporary file, to remove it.
var errTaken = errors.New("another process removes the temporary file")

// Replace replaces the file at path atomically by one with exactly this mode. It removes the temporary files that
// processes killed in the middle have left beside it.
func Replace(path string, data []byte, mode fs.FileMode) (err error) {
	Sweep(filepath.Split(path))
	for range attempts {
		err = replace(path, data, mode)
		if !errors.Is(err, errTaken) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func replace(path string, data []byte, mode fs.FileMode) error {
	// Not renameio.WriteFile: it keeps the mode of the old file.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	held, err := hold(f.File)
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	defer unix.Close(held)
	_, err = f.Write(data)
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return nil
}

// hold locks a temporary file until the descriptor that it returns is closed, or the process has ended: the kernel
// knows then that no process writes the file. A file system without locks keeps the files that kills leave.
func hold(f *os.File) (fd int, err error) {
	fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", f.Name(), err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return 0, errors.Join(fmt.Errorf("write %s: %w", f.Name(), errTaken), unix.Close(fd))
	}
	return fd, nil
}

// Sweep removes the temporary files of a file in a folder that no process writes; of all files there for the name "".
func Sweep(dir, name string) {
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return // there is none, or the write says what is wrong
	}
	for _, e := range entries {
		if e.Type().IsRegular() && temporary(e.Name(), name) {
			removeLeft(filepath.Join(dir, e.Name()))
		}
	}
}

// removeLeft removes a temporary file unless a process writes it.
func removeLeft(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return // another process has removed it
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.Remove(path) // another process may have removed it
	}
}

// temporary reports whether a name is that of a temporary file of renameio: a dot, the name of the file, and digits.
func temporary(name, of string) bool {
	rest, is := strings.CutPrefix(name, "."+of)
	digits := strings.TrimRight(rest, "0123456789")
	if !is || digits == rest {
		return false
	}
	return of == "" || digits == ""
}

// Lines is a file to which lines are added.
type Lines struct {
	file *os.File
	torn bool // the file ends in the middle of a line
}

// AddTo opens a file that exists, to add lines to it.
func AddTo(path string) (*Lines, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	l := &Lines{file: file}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	last := make([]byte, 1)
	if size := info.Size(); size > 0 {
		if _, err := file.ReadAt(last, size-1); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		l.torn = !bytes.Equal(last, []byte("\n"))
	}
	return l, nil
}

// Add adds a line, or nothing. If a part of a line cannot be removed, the next line starts on a new line.
func (l *Lines) Add(line string) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	text := line + "\n"
	if l.torn {
		text = "\n" + text
	}
	n, err := l.file.WriteString(text)
	if err == nil {
		l.torn = false
		return nil
	}
	if n > 0 {
		if cut := l.file.Truncate(info.Size()); cut != nil {
			l.torn = true
			return errors.Join(err, fmt.Errorf("take back a part of a line: %w", cut))
		}
	}
	return err
}

// Close closes the file.
func (l *Lines) Close() error { return l.file.Close() }
