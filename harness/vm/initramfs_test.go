package vm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLoadOrder checks that each module comes once, and after those that it needs.
func TestLoadOrder(t *testing.T) {
	k := Kernel{Dir: t.TempDir(), Release: "6.1"}
	if err := os.MkdirAll(k.Modules(), 0o755); err != nil {
		t.Fatal(err)
	}
	const deps = "a/virtio.ko:\na/virtio-ring.ko: a/virtio.ko\nb/9p.ko: b/9pnet.ko a/virtio-ring.ko\nb/9pnet.ko:\n"
	if err := os.WriteFile(filepath.Join(k.Modules(), "modules.dep"), []byte(deps), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := loadOrder(k, []string{"virtio_ring", "9p"})
	want := []string{"a/virtio.ko", "a/virtio-ring.ko", "b/9pnet.ko", "b/9p.ko"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("order %q (%v), want %q", got, err, want)
	}
	if _, err := loadOrder(k, []string{"e1000"}); err == nil || err.Error() != "kernel 6.1 has no module e1000" {
		t.Errorf("error %v, want one that names the module", err)
	}
}
