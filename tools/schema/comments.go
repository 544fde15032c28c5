package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// module is the path of this module.
const module = "github.com/flanneld/flannel"

// about holds what the source says about a type.
type about struct {
	doc       string
	fields    map[string]string // of a struct, by name
	constants []string          // of a string type
}

// comments reads the source of packages of this module, each once.
type comments struct {
	root string
	read map[string]map[string]about // by package and type
}

// of returns what the source says about a type of this module.
func (c *comments) of(t reflect.Type) (about, error) {
	pkg := t.PkgPath()
	if c.read == nil {
		c.read = map[string]map[string]about{}
	}
	if _, is := c.read[pkg]; !is {
		dir, own := strings.CutPrefix(pkg, module)
		if !own {
			return about{}, fmt.Errorf("%s is a type of another module", t)
		}
		types, err := parse(filepath.Join(c.root, filepath.FromSlash(dir)))
		if err != nil {
			return about{}, err
		}
		c.read[pkg] = types
	}
	found, is := c.read[pkg][t.Name()]
	if !is {
		return about{}, fmt.Errorf("the source of %s is not in %s", t, pkg)
	}
	return found, nil
}

// parse reads the Go files of a folder, without tests.
func parse(dir string) (map[string]about, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	types := map[string]about{}
	var constants []*ast.ValueSpec
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			decl, is := d.(*ast.GenDecl)
			if !is {
				continue
			}
			for _, spec := range decl.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					types[s.Name.Name] = aboutType(s, decl)
				case *ast.ValueSpec:
					constants = append(constants, s)
				}
			}
		}
	}
	for _, c := range constants {
		addConstant(types, c)
	}
	return types, nil
}

func aboutType(s *ast.TypeSpec, decl *ast.GenDecl) about {
	a := about{doc: text(s.Doc), fields: map[string]string{}}
	if a.doc == "" && len(decl.Specs) == 1 {
		a.doc = text(decl.Doc)
	}
	fields, is := s.Type.(*ast.StructType)
	if !is {
		return a
	}
	for _, f := range fields.Fields.List {
		comment := joined(text(f.Doc), text(f.Comment))
		for _, name := range f.Names {
			a.fields[name.Name] = comment
		}
	}
	return a
}

// addConstant adds the texts of a declaration such as
//
//	Lost Passage = "lost"
func addConstant(types map[string]about, c *ast.ValueSpec) {
	name, is := c.Type.(*ast.Ident)
	if !is {
		return
	}
	a, known := types[name.Name]
	for _, v := range c.Values {
		literal, is := v.(*ast.BasicLit)
		if !known || !is || literal.Kind != token.STRING {
			continue
		}
		value, err := strconv.Unquote(literal.Value)
		if err == nil && value != "" {
			a.constants = append(a.constants, value)
		}
	}
	types[name.Name] = a
}

// text returns a comment as one line.
func text(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
