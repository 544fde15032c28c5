package cni

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/internal/hostpaths"
)

// as sets the attachment for the following calls.
func (b *bench) as(network, container, ifname string) *bench {
	b.conf["name"] = network
	b.container, b.ifname = container, ifname
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// files lists the attachments' files in the data directory, links with their target.
func (b *bench) files() []string {
	b.t.Helper()
	var found []string
	data := filepath.Join(b.dir, "data")
	b.must(filepath.WalkDir(data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == hostpaths.CNIGateways {
			return err
		}
		name, _ := filepath.Rel(data, path)
		if target, err := os.Readlink(path); err == nil {
			name += " -> " + target
		}
		found = append(found, name)
		return nil
	}))
	return found
}

// formerly writes the file of a container that upstream's plugin, and earlier
// releases of this one, wrote.
func (b *bench) formerly(container, text string) {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Join(b.dir, "data"), 0o700))
	b.must(os.WriteFile(filepath.Join(b.dir, "data", container), []byte(text), 0o600))
}

func bridgeOf(network string) string { return strings.Replace(wantBridge, "cbr0", network, 1) }

// Each attachment has a file, and upstream's plugin finds the first one of a
// container, too.
func TestTwoAttachmentsOfOneContainer(t *testing.T) {
	for name, second := range map[string][2]string{
		"two networks":   {"cbr1", "net1"},
		"two interfaces": {"cbr0", "net1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, both)
			b.must(b.as("cbr0", "c1", "eth0").call(b.plugin().add))
			b.must(b.as(second[0], "c1", second[1]).call(b.plugin().add))
			if diff := cmp.Diff([]string{".cbr0/c1:eth0", "." + second[0] + "/c1:net1", "c1 -> .cbr0/c1:eth0"},
				b.files()); diff != "" {
				t.Error(diff)
			}
			b.told()
			for range 2 { // DEL may come again, and then leaves the other attachment alone
				b.must(b.call(b.plugin().del))
			}
			if diff := cmp.Diff([]string{".cbr0/c1:eth0", "c1 -> .cbr0/c1:eth0"}, b.files()); diff != "" {
				t.Error(diff)
			}
			b.must(b.as("cbr0", "c1", "eth0").call(b.plugin().del))
			want := []string{"bridge DEL " + bridgeOf(second[0]), "bridge DEL " + wantBridge}
			if diff := cmp.Diff(want, b.told()); diff != "" {
				t.Error(diff)
			}
			if left := b.files(); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// GC of one network leaves the files of another alone, and each DEL still reaches the delegate.
func TestGCKnowsItsNetwork(t *testing.T) {
	b := newBench(t, both)
	b.must(b.as("cbr0", "c1", "eth0").call(b.plugin().add))
	b.must(b.as("cbr0", "gone", "eth0").call(b.plugin().add))
	b.must(b.as("cbr1", "c1", "net1").call(b.plugin().add))
	b.must(b.as("cbr1", "c2", "eth0").call(b.plugin().add))
	b.formerly("old0", bridgeOf("cbr0"))
	b.formerly("gone0", bridgeOf("cbr0"))
	b.formerly("old1", bridgeOf("cbr1"))
	b.formerly("damaged", "{")
	b.conf["cni.dev/valid-attachments"] = []types.GCAttachment{
		{ContainerID: "c1", IfName: "eth0"}, {ContainerID: "old0", IfName: "eth0"},
	}
	b.must(b.as("cbr0", "", "").call(b.plugin().gc))
	want := []string{
		".cbr0/c1:eth0", ".cbr1/c1:net1", ".cbr1/c2:eth0",
		"c1 -> .cbr0/c1:eth0", "c2 -> .cbr1/c2:eth0", "damaged", "old0", "old1",
	}
	if diff := cmp.Diff(want, b.files()); diff != "" {
		t.Error(diff)
	}
	b.told()
	b.must(b.as("cbr1", "c2", "eth0").call(b.plugin().del))
	if diff := cmp.Diff([]string{"bridge DEL " + bridgeOf("cbr1")}, b.told()); diff != "" {
		t.Error(diff)
	}
}

// A file of the older form serves the container's DEL, in its network only.
func TestFilesOfTheOlderForm(t *testing.T) {
	b := newBench(t, both)
	b.formerly("c1", bridgeOf("cbr1"))
	b.must(b.as("cbr0", "c1", "eth0").call(b.plugin().del))
	if told := b.told(); told != nil {
		t.Errorf("DEL in another network: %v", told)
	}
	b.must(b.as("cbr0", "c1", "net1").call(b.plugin().add))
	b.must(b.call(b.plugin().del))
	if diff := cmp.Diff([]string{"c1"}, b.files()); diff != "" {
		t.Error(diff)
	}
	b.told()
	b.must(b.as("cbr1", "c1", "eth0").call(b.plugin().check))
	b.must(b.call(b.plugin().del))
	if diff := cmp.Diff([]string{"bridge CHECK " + bridgeOf("cbr1"), "bridge DEL " + bridgeOf("cbr1")},
		b.told()); diff != "" {
		t.Error(diff)
	}
	if left := b.files(); left != nil {
		t.Errorf("left: %v", left)
	}
}

// Upstream's plugin removes the name that it knows. GC removes the rest of the
// attachment.
func TestUpstreamDeletedTheContainer(t *testing.T) {
	b := newBench(t, both)
	b.must(b.as("cbr0", "c1", "eth0").call(b.plugin().add))
	b.must(os.Remove(filepath.Join(b.dir, "data", "c1")))
	b.conf["cni.dev/valid-attachments"] = []types.GCAttachment{}
	b.must(b.as("cbr0", "", "").call(b.plugin().gc))
	if _, err := os.Stat(filepath.Join(b.dir, "data", ".cbr0", "c1:eth0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still kept: %v", err)
	}
}
