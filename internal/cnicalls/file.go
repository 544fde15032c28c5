package cnicalls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/pause"
)

// The lock is held for microseconds. Another program that keeps it delays no pod and no scrape
// for longer than lockTime.
const (
	lockTime = 50 * time.Millisecond
	lockWait = time.Millisecond
)

// Count adds a call to the file, and makes the file if its folder is there.
func Count(path string, call Call) error {
	f, err := open(path, unix.O_RDWR|unix.O_CREAT, unix.LOCK_EX)
	if err != nil {
		return fmt.Errorf("count the call: %w", err)
	}
	calls, err := read(f)
	if err != nil {
		calls = None()
		err = f.Truncate(0)
	}
	if err == nil {
		calls[call]++
		_, err = f.WriteAt(calls.encode(), 0)
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return fmt.Errorf("count the call: %w", err)
	}
	return nil
}

// Read returns the numbers in the file, and [None] if there is no file.
func Read(path string) (Calls, error) {
	f, err := open(path, unix.O_RDONLY, unix.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return None(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("calls of the CNI plugin: %w", err)
	}
	calls, err := read(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return nil, fmt.Errorf("calls of the CNI plugin, %s: %w", path, err)
	}
	return calls, nil
}

// read parses an open file, however large it is.
func read(f *os.File) (Calls, error) {
	text, err := io.ReadAll(io.LimitReader(f, int64(size)+1))
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// open opens and locks the file. It follows no symbolic link and waits for no pipe.
func open(path string, flags, lock int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err == nil {
		err = locked(f, lock)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func locked(f *os.File, lock int) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTime)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), lock|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if !pause.For(ctx, lockWait) {
			return fmt.Errorf("%s is locked by another process", f.Name())
		}
	}
}
