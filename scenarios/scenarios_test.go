package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func TestX(t *testing.T) {
	files, _ := filepath.Glob("*.txt")
	for _, f := range files {
		if s := os.Getenv("SCENARIO"); s != "" && s != strings.TrimSuffix(f, ".txt") {
			continue
		}
		t.Run(f, func(t *testing.T) {
			var w *SimWorld
			s := NewSession("sim", func(top Topology) (World, error) {
				var err error
				w, err = NewSim(top, 1)
				return w, err
			})
			datadriven.RunTest(t, f, func(t *testing.T, d *datadriven.TestData) string { return s.Run(d) })
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() || testing.Verbose() && os.Getenv("LOG") != "" {
				for _, n := range s.top.nodeNames() {
					t.Log(strings.Join(w.nodes[n].daemon.Log(), "\n"))
				}
			}
		})
	}
}
