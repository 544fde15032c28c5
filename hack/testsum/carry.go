package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// locked calls f while no other run reads or writes the results at path: runs may
// be parallel and end at the same time.
func locked(path string, f func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("locking the results of earlier runs: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("locking the results of earlier runs in %s: %w", path, err)
	}
	return f()
}

// load reads the results of earlier runs; without a file there were none.
func load(path string) (*summary, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &summary{}, nil
	case err != nil:
		return nil, fmt.Errorf("results of earlier runs: %w", err)
	}
	s := &summary{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("results of earlier runs in %s: %w", path, err)
	}
	return s, nil
}

// carry adds what earlier runs left at path, and leaves the sum there.
func (s *summary) carry(path string) error {
	earlier, err := load(path)
	if err != nil {
		return err
	}
	s.follow(earlier)
	return s.save(path)
}

func (s *summary) save(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("results for the next run: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}
