package install

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPodBridges(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"net.d/10-flannel.conflist": `{"plugins":[{"type":"flannel","delegate":{"bridge":"pods0"}},{"type":"portmap"}]}`,
		"net.d/20-one.conf":         `{"type":"flannel","delegate":{"type":"bridge","bridge":"pods1"}}`,
		"net.d/30-lan.conf":         `{"type":"bridge","bridge":"br-lan"}`,
		"net.d/40-vlan.conf":        `{"type":"flannel","delegate":{"type":"macvlan","bridge":"no-bridge"}}`,
		"net.d/50-default.conf":     `{"type":"flannel","delegate":{"isDefaultGateway":true}}`,
		"net.d/60-broken.conf":      `{"type":"flannel","delegate":{"bridge":`,
		"net.d/70-odd.conf":         `[{"type":"flannel","delegate":{"bridge":7}}]`,
		"net.d/80-old.conf.bak":     `{"type":"flannel","delegate":{"bridge":"old0"}}`,
		"cni-conf.json":             `{"plugins":[{"type":"flannel","delegate":{"bridge":"pods0"}}]}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "net.d/90-pipe.conf"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := Files{ConfDir: filepath.Join(dir, "net.d"), Conf: filepath.Join(dir, "cni-conf.json")}
	if got, want := both.PodBridges(), []string{"pods0", "pods1"}; !slices.Equal(got, want) {
		t.Errorf("bridges %q, want %q", got, want)
	}
	inContainer := Files{ConfDir: filepath.Join(dir, "none"), Conf: both.Conf}
	if got := inContainer.PodBridges(); !slices.Equal(got, []string{"pods0"}) {
		t.Errorf("in a container: bridges %q, want pods0", got)
	}
	if got := (Files{}).PodBridges(); len(got) > 0 {
		t.Errorf("without paths: bridges %q", got)
	}
}
