package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

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

func (s *summary) save(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("results for the next run: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}
