package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/internal/files"
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
	path string       // "": nowhere
	open *files.Lines // nil before the first change
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
	text, err := files.ReadRegular(f.path, files.MostOwn)
	if errors.Is(err, fs.ErrNotExist) {
		return dataplane.NewState(), false, nil
	}
	if err != nil {
		return dataplane.NewState(), false, fmt.Errorf("record of commands: %w", err)
	}
	kept, former, err := parse(text)
	if err != nil {
		err = fmt.Errorf("record of commands %s: %w; what such a line says is lost", f.path, err)
	}
	return kept, former != boot, err
}

// parse reads the lines of a record, except those that cannot be read. A last line without an end was being written
// when the machine went down. The error does not quote the lines, which may name secrets.
func parse(text []byte) (kept *dataplane.State, boot string, err error) {
	kept = dataplane.NewState()
	var bad []string
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !ended {
			break
		}
		text = rest
		whole := string(line)
		switch id, is := strings.CutPrefix(whole, bootWord+" "); {
		case is:
			boot = id
		case whole != "" && !take(kept, whole) && !take(kept, lastEntry(whole)):
			bad = append(bad, strconv.Itoa(number))
		}
	}
	if len(bad) > 0 {
		err = fmt.Errorf("cannot read line %s", strings.Join(bad, ", "))
	}
	return kept, boot, err
}

// take adds what a line says to the commands, or returns false.
func take(kept *dataplane.State, line string) bool {
	word, object, _ := strings.Cut(line, " ")
	if word == forgetWord {
		object = "command " + object
	}
	o, err := dataplane.ParseObject(object)
	c, is := o.(dataplane.Command)
	switch {
	case err != nil || !is:
		return false
	case word == keepWord:
		kept.AddCommand(c)
	case word == forgetWord:
		kept.Commands.Delete(c.CommandKey)
	default:
		return false
	}
	return true
}

// lastEntry returns the last entry of a line: releases before wrote it behind a fragment, after a full disk.
func lastEntry(line string) string {
	i := max(strings.LastIndex(line, keepWord+" command "), strings.LastIndex(line, forgetWord+" "))
	return line[max(i, 0):]
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
	if err := f.open.Add(word + " " + object); err != nil {
		return fmt.Errorf("record of commands: %w", err)
	}
	return nil
}

// compact replaces the file with one without outdated lines, and opens it.
func (f *file) compact() error {
	old, err := files.ReadRegular(f.path, files.MostOwn)
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
	if err := files.Replace(f.path, []byte(text.String()), fileMode); err != nil {
		return err
	}
	f.open, err = files.AddTo(f.path)
	return err
}

func (f *file) close() error {
	if f.open == nil {
		return nil
	}
	return f.open.Close()
}
