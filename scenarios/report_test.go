package scenarios

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/scenarios/lang"
)

// reportOn records a session if REPORT asks for it. The returned function writes
// the page and the captures.
func reportOn(t *testing.T, s *lang.Session, scenario string) (finish func()) {
	t.Helper()
	file := os.Getenv("REPORT")
	if file == "" {
		return func() {}
	}
	if os.Getenv("SCENARIO") != scenario || os.Getenv("WORLD") != s.WorldName {
		file = fmt.Sprintf("%s-%s-%s.html", strings.TrimSuffix(file, ".html"), scenario, s.WorldName)
	}
	captures := strings.TrimSuffix(file, ".html") + ".pcap"
	about := page.About{Scenario: scenario, Commit: commit()}
	about.Replay = fmt.Sprintf("make scenario NAME=%s WORLD=%s", scenario, s.WorldName)
	if s.WorldName == "sim" {
		about.Replay += " SEED=" + cmp.Or(os.Getenv("SEED"), "1")
	}
	s.Record(func(node string) (io.Writer, error) {
		if err := os.MkdirAll(captures, 0o755); err != nil {
			return nil, err
		}
		file := filepath.Join(captures, node+".pcap")
		path := filepath.Base(captures) + "/" + node + ".pcap"
		about.Captures = append(about.Captures, page.Capture{Name: node, Path: path})
		out, err := os.Create(file)
		if err == nil {
			t.Cleanup(func() { _ = out.Close() })
		}
		return out, err
	})
	return func() {
		if err := page.WriteFile(file, s.Recording(about, "")); err != nil {
			t.Error(err)
			return
		}
		fmt.Printf("report: %s\n", file)
	}
}

// commit returns git's description of the tree, or "".
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
