package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/flanneld/flannel/internal/files"
)

// copiers are the programs by which the init containers of upstream's manifests put one file in place (interop 4.3).
// The image has no shell and no other cp: they are names of this program.
var copiers = map[string]string{
	"install-conf": "usage: install-conf SOURCE DESTINATION",
	"cp":           "usage: cp [-f] SOURCE DESTINATION\nThis cp copies one file.",
}

// copyFile is the program of that name. It replaces the destination atomically, with the mode of the source, and
// returns the exit status: 1 for any failure.
func copyFile(name string, args []string, stderr io.Writer) int {
	if name == "cp" && len(args) > 0 && args[0] == "-f" {
		args = args[1:]
	}
	if len(args) != 2 {
		fmt.Fprintln(stderr, copiers[name])
		return statusFailed
	}
	if err := replaceBy(args[0], args[1]); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return statusFailed
	}
	return statusOK
}

func replaceBy(source, destination string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	data, err := files.ReadRegular(source, files.MostOwn)
	if err != nil {
		return err
	}
	if into, err := os.Stat(destination); err == nil && into.IsDir() {
		destination = filepath.Join(destination, filepath.Base(source))
	}
	return files.Replace(destination, data, info.Mode().Perm())
}
