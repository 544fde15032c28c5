package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// mutant is one change of a package's source.
type mutant struct {
	id      int // counted from 1 within its package
	file    string
	line    int
	within  string // the function; empty for a variable of the package
	was, is string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d %s: `%s` → `%s`", m.file, m.line, m.within, m.was, m.is)
}

// mutated is a package with all its mutants compiled in.
type mutated struct {
	path, folder string // import path; folder from the root of the module
	mutants      []mutant
	overlay      map[string][]byte // changed and new files, by their absolute names
}

// load finds the mutants of the packages in the folders, which may be patterns.
func load(root string, folders []string) ([]*mutated, error) {
	patterns := make([]string, len(folders))
	for i, folder := range folders {
		patterns[i] = "./" + strings.TrimPrefix(folder, "./")
	}
	loaded, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", strings.Join(folders, " "), err)
	}
	var all []*mutated
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load %s: %w", p.PkgPath, p.Errors[0])
		}
		m, err := mutate(root, p)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// mutate compiles all mutants of a package into its sources.
func mutate(root string, p *packages.Package) (*mutated, error) {
	m := &mutated{path: p.PkgPath, overlay: map[string][]byte{}}
	f := &finder{info: p.TypesInfo, set: p.Fset}
	for _, file := range p.Syntax {
		name := p.Fset.File(file.Pos()).Name()
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f.name, err = filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		f.source, f.edits = source, nil
		f.inFile(file)
		m.overlay[name] = rewrite(source, f.edits)
		m.folder = filepath.Dir(f.name)
	}
	m.mutants = f.mutants
	m.overlay[filepath.Join(root, m.folder, "mutants_generated.go")] = switches(p.Name, len(m.mutants))
	return m, nil
}

// finder collects the mutants of a package and the edits of one file.
type finder struct {
	info    *types.Info
	set     *token.FileSet
	name    string
	source  []byte
	within  string
	mutants []mutant
	edits   []edit
}

func (f *finder) inFile(file *ast.File) {
	if ast.IsGenerated(file) {
		return
	}
	for _, d := range file.Decls {
		f.within = ""
		if fn, ok := d.(*ast.FuncDecl); ok {
			f.within = funcName(fn)
		}
		ast.Inspect(d, f.visit)
	}
}

// funcName returns the name of a function, or type and name of a method.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*")
	return of + "." + fn.Name.Name
}

// add makes a mutant of a node, and returns its number.
func (f *finder) add(n ast.Node, was, is string) int {
	id := len(f.mutants) + 1
	f.mutants = append(f.mutants, mutant{
		id: id, file: f.name, line: f.set.Position(n.Pos()).Line, within: f.within, was: shorten(was), is: shorten(is)})
	return id
}

// shorten makes one line of a piece of source, and leaves out the middle of a long one.
func shorten(text string) string {
	const most = 90
	line := []rune(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "¦"))
	if len(line) > most {
		line = append(append(line[:most/2:most/2], '…'), line[len(line)-most/2:]...)
	}
	return string(line)
}

func (f *finder) offset(at token.Pos) int { return f.set.Position(at).Offset }

// text returns the source of a node.
func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

// wrap inserts text before and behind a node.
func (f *finder) wrap(n ast.Node, before, behind string) {
	order := len(f.edits)
	from, to := f.offset(n.Pos()), f.offset(n.End())
	f.edits = append(f.edits, edit{from, from, before, opens, order}, edit{to, to, behind, closes, order})
}

// replaceOperator replaces an operator.
func (f *finder) replaceOperator(at token.Pos, op token.Token, with string) {
	from := f.offset(at)
	f.edits = append(f.edits, edit{from, from + len(op.String()), with, replaces, len(f.edits)})
}
