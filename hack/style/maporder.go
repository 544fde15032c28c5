package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// checkMapOrder finds loops over maps whose order reaches a slice or an output,
// in the packages of the pattern and without their tests.
func checkMapOrder(root, pattern string) ([]finding, error) {
	set := token.NewFileSet()
	loaded, err := packages.Load(&packages.Config{
		Dir: root, Fset: set,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes,
	}, pattern)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", pattern, err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load %s: %w", p.PkgPath, p.Errors[0])
		}
		for _, file := range p.Syntax {
			for _, place := range mapOrderIn(file, p.TypesInfo) {
				at := set.Position(place.pos)
				name, err := filepath.Rel(top, at.Filename)
				if err != nil {
					return nil, err
				}
				findings = append(findings, finding{filepath.ToSlash(name), at.Line, ruleOrder, place.message})
			}
		}
	}
	return findings, nil
}

type place struct {
	pos     token.Pos
	message string
}

// mapOrderIn returns the loops of one file.
func mapOrderIn(file *ast.File, info *types.Info) []place {
	var places []place
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if ok && overMap(loop, info) {
				places = append(places, orderEscapes(loop, f.Body, info)...)
			}
			return true
		})
	}
	return places
}

// overMap reports whether the loop goes through a map, by itself or with an
// iterator of the package maps.
func overMap(loop *ast.RangeStmt, info *types.Info) bool {
	if _, ok := info.TypeOf(loop.X).Underlying().(*types.Map); ok {
		return true
	}
	call, ok := loop.X.(*ast.CallExpr)
	return ok && calledPackage(call, info) == "maps"
}

// orderEscapes returns what the body of the loop does in the order of the map:
// writing, and appending to a variable that the function does not sort later.
func orderEscapes(loop *ast.RangeStmt, body *ast.BlockStmt, info *types.Info) []place {
	var places []place
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if target := appended(n, info); target != "" && declaredBefore(n.Lhs[0], loop, info) &&
				!sortedAfter(target, loop.End(), body, info) {
				places = append(places, place{loop.Pos(), "appends to " + target + " in the order of a map; sort it"})
			}
		case *ast.CallExpr:
			if writes(n, info) {
				places = append(places, place{loop.Pos(), "writes in the order of a map; sort the keys first"})
			}
		}
		return true
	})
	return places
}

// appended returns the text of x in x = append(…), or nothing.
func appended(n *ast.AssignStmt, info *types.Info) string {
	if len(n.Lhs) != 1 || len(n.Rhs) != 1 {
		return ""
	}
	call, ok := n.Rhs[0].(*ast.CallExpr)
	if !ok {
		return ""
	}
	name, ok := call.Fun.(*ast.Ident)
	if !ok || info.Uses[name] != types.Universe.Lookup("append") {
		return ""
	}
	return types.ExprString(n.Lhs[0])
}

// declaredBefore reports whether a slice outlives one turn of the loop. An
// element that the loop's own key or value selects is in no order of the map.
func declaredBefore(target ast.Expr, loop *ast.RangeStmt, info *types.Info) bool {
	outlives := true
	ast.Inspect(target, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if v, ok := info.ObjectOf(name).(*types.Var); ok && !v.IsField() && loop.Pos() <= v.Pos() && v.Pos() < loop.End() {
			outlives = false
		}
		return true
	})
	return outlives
}

// sortedAfter reports whether a call after pos sorts the target, or puts it into
// a function whose name says that it sorts.
func sortedAfter(target string, pos token.Pos, body *ast.BlockStmt, info *types.Info) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() < pos || !sorts(call, info) {
			return true
		}
		found = found || slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return types.ExprString(arg) == target })
		return true
	})
	return found
}

func sorts(call *ast.CallExpr, info *types.Info) bool {
	name := strings.ToLower(types.ExprString(call.Fun))
	return calledPackage(call, info) == "sort" || strings.Contains(name, "sort")
}

// writes reports whether the call prints, or writes into something. A hash or a
// buffer counts: its content depends on the order.
func writes(call *ast.CallExpr, info *types.Info) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if calledPackage(call, info) == "fmt" {
		return strings.HasPrefix(method.Sel.Name, "Print") || strings.HasPrefix(method.Sel.Name, "Fprint")
	}
	return slices.Contains([]string{"Write", "WriteString", "WriteByte", "WriteRune"}, method.Sel.Name)
}

// calledPackage returns the path of the package whose function is called.
func calledPackage(call *ast.CallExpr, info *types.Info) string {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	selector, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	if p, ok := info.Uses[x].(*types.PkgName); ok {
		return p.Imported().Path()
	}
	return ""
}
