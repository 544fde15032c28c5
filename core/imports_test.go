// Package core_test holds the house rules: which way imports go, and that the
// core is a pure function of what it is given.
package core_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/flanneld/flannel/"

// impure are the packages that a pure function cannot need, with all below
// them. Those in pureParts are the exceptions: x/sys/cpu says which of two ways to the
// same result the processor has.
var (
	impure = []string{
		"os", "net", "syscall", "log", "crypto/rand", "math/rand",
		"golang.org/x/sys", "golang.org/x/net", "k8s.io", "sigs.k8s.io", "go.etcd.io",
		"github.com/vishvananda", "github.com/coreos", "github.com/prometheus", "github.com/google/renameio",
	}
	pureParts = []string{"net/netip", "math/rand/v2", "golang.org/x/sys/cpu"}
)

// impureCalls are the functions, by package, that bring in the clock or a
// random source without a seed. Of math/rand/v2, what is not listed in
// pureRandom is such a function.
var (
	impureTime = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}
	pureRandom = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Source", "Zipf"}
)

// suites are the packages below drivers that every driver may import: the cases
// that each implementation of an interface of the core passes.
var suites = []string{"drivers/drivertest", "drivers/leasetest"}

func TestHouseRules(t *testing.T) {
	root := ".."
	files := 0
	for _, dir := range []string{"core", "drivers", "harness", "cmd", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files++
			for _, violation := range check(filepath.ToSlash(rel), string(text)) {
				t.Error(violation)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 20 {
		t.Errorf("only %d files were checked: is the test looking in the right place?", files)
	}
}

// check returns what one source file does against the rules. The name is
// relative to the repository and says which rules hold for the file.
func check(name, source string) []string {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	c := checker{set: set, folder: path.Dir(name), imports: map[string]string{}}
	c.test = strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		c.checkImport(spec)
	}
	if c.pure() {
		ast.Inspect(file, c.checkNode)
	}
	return c.violations
}

type checker struct {
	set        *token.FileSet
	folder     string // of the file, such as "core/lease"
	test       bool
	imports    map[string]string // local name to path
	violations []string
}

// pure reports whether the rules of the pure core hold for the file: the agent
// lives in the real world, and so does every test.
func (c *checker) pure() bool {
	return within(c.folder, "core") && !within(c.folder, "core/agent") && !c.test
}

func (c *checker) report(at token.Pos, format string, args ...any) {
	p := c.set.Position(at)
	c.violations = append(c.violations, fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...)))
}

func (c *checker) checkImport(spec *ast.ImportSpec) {
	target, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		c.report(spec.Pos(), "%v", err)
		return
	}
	local := path.Base(target)
	if local == "v2" {
		local = path.Base(path.Dir(target))
	}
	if spec.Name != nil {
		local = spec.Name.Name
	}
	c.imports[local] = target
	if c.pure() {
		if local == "." {
			c.report(spec.Pos(), "imports %s into its own scope", target)
		}
		if slices.ContainsFunc(impure, func(p string) bool { return within(target, p) }) &&
			!slices.Contains(pureParts, target) {
			c.report(spec.Pos(), "the core imports %s", target)
		}
	}
	inner, ours := strings.CutPrefix(target, module)
	if !ours {
		return
	}
	switch top := first(inner, 1); {
	case within(c.folder, "core") && top != "core" && top != "internal" && !(c.test && within(c.folder, "core/agent")):
		c.report(spec.Pos(), "the core imports %s", inner)
	case within(c.folder, "core") && within(inner, "core/agent") && !within(c.folder, "core/agent"):
		c.report(spec.Pos(), "the core imports its agent")
	case within(c.folder, "drivers") && top == "drivers" && first(inner, 2) != first(c.folder, 2) &&
		!slices.Contains(suites, inner):
		c.report(spec.Pos(), "driver %s imports driver %s", first(c.folder, 2), first(inner, 2))
	case within(c.folder, "drivers") && (top == "cmd" || top == "tools" || within(inner, "core/agent")):
		c.report(spec.Pos(), "driver %s imports %s", first(c.folder, 2), inner)
	case (within(c.folder, "tools") || within(c.folder, "cmd")) && !c.test && (top == "harness" || top == "scenarios"):
		c.report(spec.Pos(), "%s imports %s, which does not ship", c.folder, inner)
	}
}

func (c *checker) checkNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.report(n.Pos(), "go statement")
	case *ast.SelectStmt:
		c.report(n.Pos(), "select statement")
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "make" && len(n.Args) > 0 {
			if _, ok := n.Args[0].(*ast.ChanType); ok {
				c.report(n.Pos(), "makes a channel")
			}
		}
	case *ast.SelectorExpr:
		c.checkSelector(n)
	}
	return true
}

// checkSelector looks at time.Now and the like. A use counts like a call: a
// function passed on will be called. A variable named as a package is taken
// for the package, which errs on the side of a complaint.
func (c *checker) checkSelector(n *ast.SelectorExpr) {
	x, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	switch c.imports[x.Name] {
	case "time":
		if slices.Contains(impureTime, n.Sel.Name) {
			c.report(n.Pos(), "uses time.%s", n.Sel.Name)
		}
	case "math/rand/v2":
		if !slices.Contains(pureRandom, n.Sel.Name) {
			c.report(n.Pos(), "uses the global random source: rand.%s", n.Sel.Name)
		}
	}
}

// within reports whether a path is the folder or lies below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// first returns the first n elements of a path.
func first(p string, n int) string {
	parts := strings.Split(p, "/")
	return strings.Join(parts[:min(n, len(parts))], "/")
}

// ruleCases are source files, and what the check of each one reports.
var ruleCases = []struct {
	what, file, source string
	want               []string
}{
	{"clean", "core/lease/a.go", "import (\n\"net/netip\"\n\"time\"\n)\nvar a netip.Addr\nvar d = time.Second\n" +
		"var t time.Time", nil},
	{"os", "core/lease/a.go", `import "os"`, []string{"core/lease/a.go:2: the core imports os"}},
	{"below os", "core/lease/a.go", `import "os/exec"`, []string{"core/lease/a.go:2: the core imports os/exec"}},
	{"net", "core/lease/a.go", `import "net"`, []string{"core/lease/a.go:2: the core imports net"}},
	{"net/http", "core/lease/a.go", `import "net/http"`, []string{"core/lease/a.go:2: the core imports net/http"}},
	{"renamed", "core/lease/a.go", `import o "os"`, []string{"core/lease/a.go:2: the core imports os"}},
	{"blank", "core/lease/a.go", `import _ "os"`, []string{"core/lease/a.go:2: the core imports os"}},
	{"netlink", "core/lease/a.go", `import "github.com/vishvananda/netlink"`,
		[]string{"core/lease/a.go:2: the core imports github.com/vishvananda/netlink"}},
	{"etcd", "core/lease/a.go", `import "go.etcd.io/etcd/client/v3"`,
		[]string{"core/lease/a.go:2: the core imports go.etcd.io/etcd/client/v3"}},
	{"client-go", "core/lease/a.go", `import "k8s.io/client-go/kubernetes"`,
		[]string{"core/lease/a.go:2: the core imports k8s.io/client-go/kubernetes"}},
	{"klog", "core/lease/a.go", `import "k8s.io/klog/v2"`,
		[]string{"core/lease/a.go:2: the core imports k8s.io/klog/v2"}},
	{"old random", "core/lease/a.go", `import "math/rand"`, []string{"core/lease/a.go:2: the core imports math/rand"}},
	{"dot", "core/lease/a.go", `import . "time"`, []string{"core/lease/a.go:2: imports time into its own scope"}},
	{"driver", "core/lease/a.go", `import "github.com/flanneld/flannel/drivers/sim"`,
		[]string{"core/lease/a.go:2: the core imports drivers/sim"}},
	{"harness", "core/agent/a.go", `import "github.com/flanneld/flannel/harness"`,
		[]string{"core/agent/a.go:2: the core imports harness"}},
	{"cmd", "core/a.go", `import "github.com/flanneld/flannel/cmd/flanneld"`,
		[]string{"core/a.go:2: the core imports cmd/flanneld"}},
	{"core by core", "core/alloc/a.go", `import "github.com/flanneld/flannel/core/lease"`, nil},
	{"agent by core", "core/node/a.go", `import "github.com/flanneld/flannel/core/agent"`,
		[]string{"core/node/a.go:2: the core imports its agent"}},
	{"driver in a test", "core/node/a_test.go", `import "github.com/flanneld/flannel/drivers/sim"`,
		[]string{"core/node/a_test.go:2: the core imports drivers/sim"}},
	{"driver in the agent's test", "core/agent/a_test.go", `import "github.com/flanneld/flannel/drivers/sim"`, nil},
	{"driver by driver", "drivers/linux/a.go", `import "github.com/flanneld/flannel/drivers/sim"`,
		[]string{"drivers/linux/a.go:2: driver drivers/linux imports driver drivers/sim"}},
	{"suite by driver", "drivers/linux/a.go", `import "github.com/flanneld/flannel/drivers/drivertest"`, nil},
	{"driver by suite", "drivers/leasetest/a.go", `import "github.com/flanneld/flannel/drivers/etcd"`,
		[]string{"drivers/leasetest/a.go:2: driver drivers/leasetest imports driver drivers/etcd"}},
	{"driver by its part", "drivers/sim/wire/a.go", `import "github.com/flanneld/flannel/drivers/sim"`, nil},
	{"agent by driver", "drivers/sim/a.go", `import "github.com/flanneld/flannel/core/agent"`,
		[]string{"drivers/sim/a.go:2: driver drivers/sim imports core/agent"}},
	{"tool by driver", "drivers/sim/a.go", `import "github.com/flanneld/flannel/tools/output"`,
		[]string{"drivers/sim/a.go:2: driver drivers/sim imports tools/output"}},
	{"lab by tool", "tools/diff/a.go", `import "github.com/flanneld/flannel/harness"`,
		[]string{"tools/diff/a.go:2: tools/diff imports harness, which does not ship"}},
	{"lab in a tool's test", "tools/diff/a_test.go", `import "github.com/flanneld/flannel/harness"`, nil},
	{"core by driver", "drivers/sim/a.go", `import "github.com/flanneld/flannel/core/node"`, nil},
	{"go", "core/node/a.go", "func f() {\ngo f()\n}", []string{"core/node/a.go:3: go statement"}},
	{"select", "core/node/a.go", "func f() { select {} }", []string{"core/node/a.go:2: select statement"}},
	{"channel", "core/node/a.go", "var c = make(chan int)", []string{"core/node/a.go:2: makes a channel"}},
	{"a channel's type", "core/node/a.go", "var c <-chan int", nil},
	{"clock", "core/node/a.go", "import \"time\"\nvar t = time.Now()", []string{"core/node/a.go:3: uses time.Now"}},
	{"clock passed on", "core/node/a.go", "import clock \"time\"\nvar t = clock.Since",
		[]string{"core/node/a.go:3: uses time.Since"}},
	{"timer", "core/node/a.go", "import \"time\"\nvar t = time.After(1)", []string{"core/node/a.go:3: uses time.After"}},
	{"global random", "core/node/a.go", "import \"math/rand/v2\"\nvar n = rand.IntN(3)",
		[]string{"core/node/a.go:3: uses the global random source: rand.IntN"}},
	{"own random", "core/node/a.go", "import \"math/rand/v2\"\nvar n = rand.New(rand.NewPCG(1, 2))\nvar r *rand.Rand",
		nil},
	{"agent is free", "core/agent/a.go", "import (\n\"os\"\n\"time\"\n)\nfunc f() { go f(); time.Now(); os.Exit(1) }",
		nil},
	{"tests are free", "core/node/a_test.go",
		"import (\n\"os\"\n\"time\"\n)\nfunc f() { go f(); time.Now(); os.Exit(1) }", nil},
	{"broken", "core/node/a.go", "func", []string{"core/node/a.go:2:5: expected 'IDENT', found 'EOF'"}},
}

func TestRulesAreHeld(t *testing.T) {
	for _, c := range ruleCases {
		t.Run(c.what, func(t *testing.T) {
			if d := cmp.Diff(c.want, check(c.file, "package a\n"+c.source)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
