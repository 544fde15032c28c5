package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/flanneld/flannel/core/dataplane"
)

// The first words of the file's lines.
const (
	bootWord   = "boot"
	keepWord   = "keep"
	forgetWord = "forget"
)

// The record names addresses and data of peers, as the state file does.
const (
	fileMode = 0o600
	dirMode  = 0o755
)

// file is the record on disk.
type file struct {
	path string   // "": nowhere
	open *os.File // for appending; nil before the first change
	boot string
}

// folder returns the folder where commands run: the record's own, since a command may keep a file there for
// a later one, and the root directory is read-only in many containers and units. It makes the folder if another program
// has removed it. Where that fails, commands run in the root directory: most of them need no folder.
func (f *file) folder() string {
	if f.path == "" {
		return "/"
	}
	dir := filepath.Dir(f.path)
	if os.MkdirAll(dir, dirMode) != nil {
		return "/"
	}
	return dir
}

// bootID identifies the present boot of the machine.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// read returns the commands in the file, and whether the machine has booted since.
func (f *file) read(boot string) (kept *dataplane.State, rebooted bool, warning error) {
	f.boot = boot
	if f.path == "" {
		return dataplane.NewState(), false, nil
	}
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return dataplane.NewState(), false, nil
	}
	if err != nil {
		return dataplane.NewState(), false, fmt.Errorf("record of commands: %w", err)
	}
	kept, former, err := parse(text)
	if err != nil {
		err = fmt.Errorf("record of commands %s: %w; what it says from there on is lost", f.path, err)
	}
	return kept, former != boot, err
}

// parse reads the lines of a record up to the first that cannot be read. A last
// line without an end was being written when the machine went down.
func parse(text []byte) (kept *dataplane.State, boot string, err error) {
	kept = dataplane.NewState()
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !ended {
			break
		}
		word, object, _ := strings.Cut(string(line), " ")
		switch word {
		case bootWord:
			boot = object
		case keepWord:
			o, failed := dataplane.ParseObject(object)
			err = failed
			if err == nil {
				kept.Put(o)
			}
		case forgetWord:
			o, failed := dataplane.ParseObject("command " + object)
			err = failed
			if c, is := o.(dataplane.Command); is && err == nil {
				kept.Commands.Delete(c.CommandKey)
			}
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return kept, boot, fmt.Errorf("line %d: %w", number, err)
		}
		text = rest
	}
	return kept, boot, nil
}

// append adds a line. The first one of a process rewrites the file, so that
// it does not grow from run to run.
func (f *file) append(word, object string) error {
	if f.path == "" {
		return nil
	}
	if f.open == nil {
		if err := f.compact(); err != nil {
			return fmt.Errorf("record of commands: %w", err)
		}
	}
	if _, err := fmt.Fprintf(f.open, "%s %s\n", word, object); err != nil {
		return fmt.Errorf("record of commands: %w", err)
	}
	return nil
}

// compact replaces the file with one without outdated lines, and opens it.
func (f *file) compact() error {
	old, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	kept, boot, _ := parse(old)
	if len(old) == 0 {
		boot = f.boot
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", bootWord, f.boot)
	for _, c := range kept.Commands.All {
		if boot != f.boot && c.Outcome == dataplane.Left {
			continue
		}
		if boot != f.boot && (c.Outcome == dataplane.Done || c.Outcome == dataplane.Undone) {
			c.Outcome = dataplane.Stale
		}
		fmt.Fprintf(&text, "%s %s\n", keepWord, c)
	}
	if err := os.MkdirAll(filepath.Dir(f.path), dirMode); err != nil {
		return err
	}
	if err := renameio.WriteFile(f.path, []byte(text.String()), fileMode); err != nil {
		return err
	}
	f.open, err = os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, fileMode)
	return err
}

func (f *file) close() error {
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}
