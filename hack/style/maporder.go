package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// mapOrder finds loops over maps in the core whose order reaches a slice or an output.
var mapOrder = &analysis.Analyzer{Name: "maporder", Doc: "the order of a map reaches no output", Run: checkMapOrder}

func checkMapOrder(pass *analysis.Pass) (any, error) {
	if !strings.Contains(pass.Pkg.Path(), "/core/") {
		return nil, nil
	}
	for _, file := range pass.Files {
		if strings.HasSuffix(pass.Fset.Position(file.Pos()).Filename, "_test.go") {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				checkLoops(pass, f.Body)
			}
		}
	}
	return nil, nil
}

func checkLoops(pass *analysis.Pass, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if ok && overMap(loop, pass.TypesInfo) {
			for _, message := range orderEscapes(loop, body, pass.TypesInfo) {
				pass.Reportf(loop.Pos(), "%s", message)
			}
		}
		return true
	})
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
func orderEscapes(loop *ast.RangeStmt, body *ast.BlockStmt, info *types.Info) []string {
	var messages []string
	ast.Inspect(loop.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if target := appended(n, info); target != "" && declaredBefore(n.Lhs[0], loop, info) &&
				!sortedAfter(target, loop.End(), body, info) {
				messages = append(messages, "appends to "+target+" in the order of a map; sort it")
			}
		case *ast.CallExpr:
			if writes(n, info) {
				messages = append(messages, "writes in the order of a map; sort the keys first")
			}
		}
		return true
	})
	return messages
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
