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
	"time"

	"github.com/google/renameio/v2"
)

// leftAfter is the age from which a temporary file is left of a killed process: no write takes that long.
const leftAfter = time.Minute

// Replace replaces the file at path atomically by one with exactly this mode. It removes the temporary files that
// processes killed in the middle have left beside it.
func Replace(path string, data []byte, mode fs.FileMode) error {
	dir, name := filepath.Split(path)
	Sweep(dir, name)
	// Not renameio.WriteFile: it keeps the mode of the old file.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return nil
}

// Sweep removes the old temporary files of a file in a folder; of all files there for the name "".
func Sweep(dir, name string) {
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return // there is none, or the write says what is wrong
	}
	for _, e := range entries {
		if !temporary(e.Name(), name) {
			continue
		}
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > leftAfter {
			_ = os.Remove(filepath.Join(dir, e.Name())) // another process may have removed it
		}
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
