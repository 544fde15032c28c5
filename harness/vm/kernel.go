package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// Kernel is an unpacked kernel package.
type Kernel struct {
	Dir     string // its folder in the cache
	Release string // such as 6.1.0-56-amd64
}

// Modules returns the folder of the kernel's modules.
func (k Kernel) Modules() string { return filepath.Join(k.Dir, "lib/modules", k.Release) }

// image returns the kernel as an ELF file, which QEMU starts without a boot loader.
func (k Kernel) image() string { return filepath.Join(k.Dir, imageName) }

const imageName = "vmlinux"

// cache returns the folder of unpacked kernels.
func cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil { // no home
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
	}
	return filepath.Join(dir, "flannel-vm"), nil
}

// Find returns a kernel that was fetched before. The error is a [*Missing] if there
// is none.
func Find() (Kernel, error) {
	dir, err := cache()
	if err != nil {
		return Kernel{}, err
	}
	images, err := filepath.Glob(filepath.Join(dir, "*", imageName))
	if err != nil {
		return Kernel{}, err
	}
	if len(images) == 0 {
		return Kernel{}, &Missing{What: "a kernel in " + dir, Remedy: "make test-vm downloads it"}
	}
	slices.Sort(images)
	found := filepath.Dir(images[len(images)-1])
	return Kernel{Dir: found, Release: filepath.Base(found)}, nil
}

// Fetch returns a kernel. Without one in the cache it downloads the current
// linux-image-amd64 with apt and unpacks it there. It installs nothing.
func Fetch(ctx context.Context) (Kernel, error) {
	k, err := Find()
	var missing *Missing
	if err == nil || !errors.As(err, &missing) {
		return k, err
	}
	dir, err := cache()
	if err != nil {
		return k, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return k, err
	}
	work, err := os.MkdirTemp(dir, "unpack-")
	if err != nil {
		return k, err
	}
	defer os.RemoveAll(work)
	k, err = unpack(ctx, work)
	if err != nil {
		return k, fmt.Errorf("fetch a kernel: %w", err)
	}
	done := filepath.Join(dir, k.Release)
	if err := os.Rename(k.Dir, done); err != nil && !errors.Is(err, os.ErrExist) { // another run was faster
		return k, err
	}
	k.Dir = done
	return k, nil
}

// unpack downloads and unpacks a kernel package below a folder.
func unpack(ctx context.Context, work string) (Kernel, error) {
	name, err := packageName(ctx)
	if err != nil {
		return Kernel{}, err
	}
	if _, err := output(ctx, work, "apt-get", "download", name); err != nil {
		return Kernel{}, err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) != 1 {
		return Kernel{}, fmt.Errorf("apt-get download %s left %d packages: %w", name, len(debs), err)
	}
	k := Kernel{Dir: filepath.Join(work, "kernel")}
	if _, err := output(ctx, work, "dpkg", "-x", debs[0], k.Dir); err != nil {
		return k, err
	}
	releases, err := filepath.Glob(filepath.Join(k.Dir, "lib/modules/*"))
	if err != nil || len(releases) != 1 {
		return k, fmt.Errorf("%s has modules for %d kernels: %w", name, len(releases), err)
	}
	k.Release = filepath.Base(releases[0])
	if err := prune(k); err != nil {
		return k, err
	}
	depmod, err := program("depmod")
	if err != nil {
		return k, err
	}
	if _, err := output(ctx, work, depmod, "-b", k.Dir, k.Release); err != nil {
		return k, err
	}
	return k, extract(ctx, k)
}

// imagePackage matches the package that linux-image-amd64 stands for.
var imagePackage = regexp.MustCompile(`Depends: (linux-image-\S+)`)

func packageName(ctx context.Context) (string, error) {
	text, err := output(ctx, "", "apt-cache", "depends", "linux-image-amd64")
	if err != nil {
		return "", err
	}
	m := imagePackage.FindSubmatch(text)
	if m == nil {
		return "", &Missing{What: "linux-image-amd64 in apt's lists", Remedy: "as root: apt-get update"}
	}
	return string(m[1]), nil
}

// kept are the folders of the modules that a network lab can use: a fifth of all.
var kept = map[string][]string{
	"kernel":             {"arch", "crypto", "drivers", "fs", "lib", "net"},
	"kernel/drivers":     {"block", "char", "net", "virtio"},
	"kernel/drivers/net": {"bonding", "ipvlan", "vxlan", "wireguard"},
}

// prune removes the folders of other modules.
func prune(k Kernel) error {
	for parent, keep := range kept {
		entries, err := os.ReadDir(filepath.Join(k.Modules(), parent))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() || slices.Contains(keep, e.Name()) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(k.Modules(), parent, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// xzMagic begins the compressed kernel within Debian's image.
var xzMagic = []byte("\xfd7zXZ\x00")

// extract decompresses the kernel in the package's image. The machine would need
// three seconds to do so at each start.
func extract(ctx context.Context, k Kernel) error {
	text, err := os.ReadFile(filepath.Join(k.Dir, "boot", "vmlinuz-"+k.Release))
	if err != nil {
		return err
	}
	start := bytes.Index(text, xzMagic)
	if start < 0 {
		return fmt.Errorf("the image of %s holds no kernel that xz compressed", k.Release)
	}
	xz := exec.CommandContext(ctx, "xz", "-dc", "--single-stream")
	xz.Stdin = bytes.NewReader(text[start:])
	var said bytes.Buffer
	xz.Stderr = &said
	image, err := xz.Output()
	if err != nil {
		return fmt.Errorf("decompress the image of %s: %w: %s", k.Release, err, said.Bytes())
	}
	return os.WriteFile(k.image(), image, 0o644)
}

// output runs a program and returns what it writes.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w: %s", name, args, err, said.Bytes())
	}
	return text, nil
}
