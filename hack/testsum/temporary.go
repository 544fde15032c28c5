package main

import (
	"os"
	"path/filepath"
)

// shortEnough is how many bytes of a path a temporary folder may have: that of a socket has at most 107.
const shortEnough = 50

// temporary returns a short name for the temporary folder, and a function that removes it. If the folder's own name is
// too long for the sockets of tests, the short one is a link to it in common, such as /tmp.
func temporary(folder, common string) (name string, remove func()) {
	dir := ""
	if len(folder) > shortEnough {
		dir, _ = os.MkdirTemp(common, "t")
	}
	link := filepath.Join(dir, "t")
	if dir == "" || os.Symlink(folder, link) != nil {
		return folder, func() { _ = os.Remove(dir) }
	}
	return link, func() { _ = os.RemoveAll(dir) }
}
