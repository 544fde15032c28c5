package core_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/backend/all"
)

// TestBackendsAreNamedOnce holds that no package of core or drivers decides by a
// backend's name: only the backend itself and the registry know it. Text that
// people read, such as an example inside a longer string, is not a decision.
func TestBackendsAreNamedOnce(t *testing.T) {
	names := map[string]bool{}
	for _, s := range all.Specs() {
		names[s.Type] = true
	}
	for _, dir := range []string{"../core", "../drivers"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || mayNameBackends(path) {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if _, isImport := n.(*ast.ImportSpec); isImport {
					return false
				}
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil && names[text] {
						t.Errorf("%s names the backend %q; ask the registry (core/backend/all)", fset.Position(l.Pos()), text)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mayNameBackends reports whether a file may hold a backend's name as a value.
func mayNameBackends(path string) bool {
	path = filepath.ToSlash(path)
	for _, part := range []string{
		"_test.go", "core/backend/",
		"core/dataplane/link_", // the kernel's names for kinds of links

		"core/dataplane/chaintext.go",       // names of protocols in rules
		"drivers/linux/firewall/iptrule.go", // the same
		"drivers/sim/kernel/readable.go",    // encapsulations as they are on a wire

		"drivers/leasetest/",       // records as tests write them
		"drivers/kube/kubetest/",   // the same
		"drivers/linux/linuxtest/", // kernel kinds
	} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}
