package image_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/flanneld/flannel/harness/dockerlab"
)

const (
	repo       = "../../../"
	dockerfile = "deploy/Dockerfile"
	tag        = "flannel:built"
	sharedDir  = "/opt/shared" // where engines see the folder of the workshop
	archive    = "flannel.tar"
)

// bases are the archives of hack/docker-bases for the images that the Dockerfile begins with, and what Docker
// Hub's images of these names set.
var bases = map[string]struct{ archive, change string }{
	"debian": {"debian.tar", `CMD ["bash"]`},
	"golang": {"golang.tar", "ENV GOTOOLCHAIN=local GOPATH=/go PATH=/go/bin:/usr/local/go/bin:" +
		"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
}

// workshop is an engine that builds the image, and a folder that it shares with the specs.
type workshop struct {
	site *dockerlab.Site // nil once it is closed
	dir  string
}

// newWorkshop starts the engine, with the images that the Dockerfile begins with.
func newWorkshop(ctx context.Context) (*workshop, error) {
	dir, err := os.MkdirTemp("/dev/shm", "workshop")
	if err != nil {
		return nil, err
	}
	if err := copySources(ctx, filepath.Join(dir, "context")); err != nil {
		return nil, err
	}
	bases, err := filepath.Abs(os.Getenv(basesEnv))
	if err != nil {
		return nil, err
	}
	o := options("")
	o.Binds = map[string]string{dir: sharedDir, bases: basesDir}
	site, err := dockerlab.NewBuilder(ctx, o)
	if err != nil {
		return nil, err
	}
	w := &workshop{site: site, dir: dir}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, site.Close())
	}
	return w, nil
}

// start starts dockerd and gives it the images that the Dockerfile begins with.
func (w *workshop) start(ctx context.Context) error {
	if err := w.engine().Start(ctx); err != nil {
		return err
	}
	names, err := w.baseNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		kind, _, _ := strings.Cut(name, ":")
		base, known := bases[kind]
		if !known {
			return fmt.Errorf("%s begins with %s, which hack/docker-bases does not make", dockerfile, name)
		}
		if _, err := w.engine().Docker(ctx, "import", "--change", base.change, basesDir+"/"+base.archive, name); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the engine, if it still runs.
func (w *workshop) Close() error {
	site := w.site
	w.site = nil
	if site == nil {
		return nil
	}
	return site.Close()
}

func (w *workshop) engine() *dockerlab.Engine { return w.site.Engines[0] }

// run runs a program of the image.
func (w *workshop) run(ctx context.Context, program string, args ...string) (string, error) {
	command := []string{"run", "--rm", "--network=none", "--entrypoint=" + program, tag}
	return w.engine().Docker(ctx, append(command, args...)...)
}

// sources is the folder with the sources that Docker builds.
func (w *workshop) sources() string { return filepath.Join(w.dir, "context") }

// baseNames returns the names of the images that the Dockerfile begins with.
func (w *workshop) baseNames() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(w.sources(), dockerfile))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "scratch" {
			names = append(names, m[1])
		}
	}
	return names, nil
}

// copySources clones the repository and gives the clone the files of this working tree, so that
// git sees in it what it sees here. A working tree of git worktree has its repository elsewhere.
func copySources(ctx context.Context, to string) error {
	_, err := shell(ctx, nil, `
		git clone --quiet --no-checkout "$1" "$2"
		git -C "$1" ls-files -z --cached --others --exclude-standard |
			tar --create --null --ignore-failed-read --directory="$1" --files-from=- 2>/dev/null |
			tar --extract --directory="$2"
		git -C "$2" reset --quiet`, repo, to)
	return err
}

// buildOutside runs the step of the Dockerfile that builds the programs on this system, below dir.
func (w *workshop) buildOutside(ctx context.Context, dir string) error {
	text, err := os.ReadFile(filepath.Join(w.sources(), dockerfile))
	if err != nil {
		return err
	}
	step := regexp.MustCompile(`(?m)^RUN ((?:.*\\\n)*.*go build(?:.*\\\n)*.*)$`).FindSubmatch(text)
	if step == nil {
		return fmt.Errorf("%s has no step with go build", dockerfile)
	}
	script := strings.ReplaceAll(string(step[1]), "/out/", dir+"/")
	_, err = shell(ctx, []string{"GOFLAGS=", "GOPROXY=off", "TARGETARCH="}, "cd \"$1\"\n"+script, w.sources())
	return err
}

// shell runs a script with these arguments and further variables.
func shell(ctx context.Context, env []string, script string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-euo", "pipefail", "-c", script, "script"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.TrimSpace(script), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// entry is a file, folder or link of the image.
type entry struct {
	tar.Header
	sum string // of a file
}

// save writes the image's archive and returns the files in its layers by their paths.
func (w *workshop) save(ctx context.Context) (map[string]entry, error) {
	if _, err := w.engine().Docker(ctx, "save", "--output="+sharedDir+"/"+archive, tag); err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(w.dir, archive))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	entries := map[string]entry{}
	for parts := tar.NewReader(file); ; {
		part, err := parts.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err == nil && filepath.Base(part.Name) == "layer.tar" {
			err = readLayer(parts, entries)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", archive, err)
		}
	}
}

// readLayer adds the entries of a layer.
func readLayer(in io.Reader, entries map[string]entry) error {
	for layer := tar.NewReader(in); ; {
		header, err := layer.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, layer); err != nil {
			return err
		}
		entries[filepath.Clean(header.Name)] = entry{*header, hex.EncodeToString(sum.Sum(nil))}
	}
}

// sumOf returns the checksum of a file as entries have it.
func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}
