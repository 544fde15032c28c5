package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/flanneld/flannel/harness/internal/machine"
)

// The names that the manifests and Kubernetes' specs use.
const (
	pauseImage    = "registry.k8s.io/pause:3.10.1"
	FlannelImage  = "ghcr.io/flanneld/flannel:v0.1.0"
	corednsImage  = "registry.k8s.io/coredns/coredns:v1.12.4"
	AgnhostImage  = "registry.k8s.io/e2e-test-images/agnhost:2.56"
	netpolImage   = "registry.k8s.io/networking/kube-network-policies:v0.8.0"
	dnsutilsImage = "registry.k8s.io/e2e-test-images/jessie-dnsutils:1.7"
)

// flannelOwner is the user to whom the files of flannel's image belong, and no process.
const flannelOwner = 65532

// flannelArchive is the name of the archive with flannel's image.
const flannelArchive = "flannel.tar"

const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// stockImages returns the images that depend only on the versions of the programs.
func stockImages(roots string) map[string]machine.Image {
	return map[string]machine.Image{
		"pause": {Root: filepath.Join(roots, "pause"), Names: []string{pauseImage},
			Entrypoint: []string{"/busybox", "sleep", "infinity"}},
		"coredns": {Root: filepath.Join(roots, "coredns"), Names: []string{corednsImage}, Entrypoint: []string{"/coredns"}},
		"agnhost": {Root: filepath.Join(roots, "agnhost"), Names: []string{AgnhostImage, dnsutilsImage},
			Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, Path: usualPath},
		"netpol": {Root: filepath.Join(roots, "netpol"), Names: []string{netpolImage}, Cmd: []string{"/bin/netpol"}},
	}
}

// writeImages writes the missing archives, and flannel's in any case.
func (c *Cluster) writeImages(ctx context.Context) error {
	dir := filepath.Join(c.options.Programs, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, i := range stockImages(filepath.Join(c.options.Programs, "roots")) {
		path := filepath.Join(dir, name+".tar")
		_, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			err = i.Archive(path)
		}
		if err != nil {
			return err
		}
	}
	return c.writeFlannelImage(ctx, c.options.Flannel, flannelArchive)
}

// writeFlannelImage does what deploy/Dockerfile does, with this host's nft and iptables. The
// archive is one of the cluster's files.
func (c *Cluster) writeFlannelImage(ctx context.Context, programs, archive string) error {
	root := c.path("image-" + archive)
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, c.options.Tools, root).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", c.options.Tools, err, out)
	}
	if err := os.MkdirAll(filepath.Join(root, "opt/bin"), 0o755); err != nil {
		return err
	}
	for link, to := range map[string]string{
		"opt/bin/flannelctl": "flanneld", "opt/bin/install-conf": "flanneld", "opt/bin/cp": "flanneld",
		"flannel": "opt/bin/flannel-cni",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	for _, name := range []string{"flanneld", "flannel-cni"} {
		data, err := os.ReadFile(filepath.Join(programs, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, "opt/bin", name), data, 0o755); err != nil {
			return err
		}
	}
	flannel := machine.Image{Root: root, Names: []string{FlannelImage}, Entrypoint: []string{"/opt/bin/flanneld"},
		Path: "/opt/bin:/usr/sbin", Owner: flannelOwner}
	return flannel.Archive(c.path("files", archive))
}

// load adds an image to those of the node.
func (n *Node) load(ctx context.Context, archive string) error {
	_, err := n.Run(ctx, "ctr", "-n", "k8s.io", "images", "import", archive)
	return err
}

// archives are the images' places on a node.
func (c *Cluster) archives() []string {
	archives := []string{file(flannelArchive)}
	for _, name := range slices.Sorted(maps.Keys(stockImages(""))) {
		archives = append(archives, programsDir+"/images/"+name+".tar")
	}
	return archives
}
