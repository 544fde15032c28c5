package dockerlab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flanneld/flannel/harness/internal/machine"
)

// Image is the name of the only image. Its container serves its files at port 80, among
// them File, and tells at the page Asker the address from which it is asked.
const (
	Image = "lab/web:1"
	File  = "/bin/busybox"
	Asker = "/cgi-bin/asker"
)

// applets are the programs of the image.
var applets = []string{"cat", "cmp", "httpd", "killall", "nc", "ping", "sh", "timeout", "wget"}

const askerScript = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$REMOTE_ADDR\"\n"

// writeImage writes the image's archive. Its one program is the static busybox.
func writeImage(busybox, dir string) (string, error) {
	root := filepath.Join(dir, "image")
	program, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{File: program, Asker: []byte(askerScript)} {
		path := filepath.Join(root, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755))
		if err != nil {
			return "", err
		}
	}
	for _, applet := range applets {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return "", err
		}
	}
	archive := filepath.Join(dir, "image.tar")
	image := machine.Image{Root: root, Names: []string{Image}, Path: "/bin",
		Entrypoint: []string{"httpd", "-f", "-p", "0.0.0.0:80", "-h", "/"}}
	if err := image.Archive(archive); err != nil {
		return "", fmt.Errorf("write the image: %w", err)
	}
	return archive, nil
}
