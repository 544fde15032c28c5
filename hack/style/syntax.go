package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns   = 120
	maxFuncLines = 70
	maxFileLines = 500
	tabWidth     = 1
)

// checkLines looks at the length of lines and of the file.
func (c *checker) checkLines() {
	lines := c.source.lines()
	for i, line := range lines {
		columns := utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabWidth-1)
		if columns > maxColumns {
			c.reportLine(i+1, ruleLine, fmt.Sprintf("%d columns, want %d at most", columns, maxColumns))
		}
	}
	if n := len(lines) - 1; n > maxFileLines {
		c.reportLine(1, ruleFile, fmt.Sprintf("%d lines, want %d at most", n, maxFileLines))
	}
}

// checkNode looks at one node of the syntax tree.
func (c *checker) checkNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		c.checkInit(n.Init, "if")
	case *ast.SwitchStmt:
		c.checkInit(n.Init, "switch")
	case *ast.AssignStmt:
		c.checkAssignment(n)
	case *ast.ValueSpec:
		c.checkNames(n.Names)
		if len(n.Values) >= 3 {
			c.report(n.Pos(), ruleTriple, fmt.Sprintf("declares %d values in one statement", len(n.Values)))
		}
	case *ast.CaseClause:
		if len(n.Body) == 0 {
			c.report(n.Pos(), ruleCase, "a case without statements: say the condition in an if")
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			c.checkBuiltin(n.Key)
			c.checkBuiltin(n.Value)
		}
	case *ast.FuncDecl:
		c.checkFunc(n)
	case *ast.SelectorExpr:
		c.checkDump(n)
	case *ast.FuncType:
		c.checkFields(n.Params)
		c.checkFields(n.Results)
	}
	return true
}

// checkInit wants the initialiser of an if or a switch to declare.
func (c *checker) checkInit(init ast.Stmt, keyword string) {
	if init == nil {
		return
	}
	if a, ok := init.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
		return
	}
	c.report(init.Pos(), ruleInit, "the initialiser of this "+keyword+" changes state: make it a statement of its own")
}

func (c *checker) checkAssignment(n *ast.AssignStmt) {
	fromCall := len(n.Rhs) == 1 && n.Tok == token.DEFINE
	if len(n.Lhs) >= 3 && !fromCall {
		c.report(n.Pos(), ruleTriple, fmt.Sprintf("assigns %d values in one statement", len(n.Lhs)))
	}
	if n.Tok != token.DEFINE {
		return
	}
	for _, left := range n.Lhs {
		c.checkBuiltin(left)
	}
}

func (c *checker) checkFunc(n *ast.FuncDecl) {
	if n.Recv == nil {
		c.checkBuiltin(n.Name)
	} else {
		c.checkFields(n.Recv)
	}
	if lines := c.line(n.End()) - c.line(n.Pos()) + 1; lines > maxFuncLines {
		c.report(n.Pos(), ruleFunc, fmt.Sprintf("%s has %d lines, want %d at most", n.Name.Name, lines, maxFuncLines))
	}
}

// checkDump wants tables of the kernel to be read by the package wholedump. The netlink library
// itself returns answers that a change interrupted.
func (c *checker) checkDump(n *ast.SelectorExpr) {
	library, ok := n.X.(*ast.Ident)
	if !ok || library.Name != "netlink" || path.Base(path.Dir(c.source.name)) == "wholedump" {
		return
	}
	name := n.Sel.Name
	if strings.HasSuffix(name, "List") || strings.Contains(name, "ListFiltered") || strings.Contains(name, "Handle") {
		c.report(n.Pos(), ruleDump, "netlink."+name+" may return a part of a table: use the package wholedump")
	}
}

func (c *checker) checkFields(fields *ast.FieldList) {
	if fields == nil {
		return
	}
	for _, field := range fields.List {
		c.checkNames(field.Names)
	}
}

func (c *checker) checkNames(names []*ast.Ident) {
	for _, name := range names {
		c.checkBuiltin(name)
	}
}

// checkBuiltin reports a declaration that hides a name every package has.
func (c *checker) checkBuiltin(declared ast.Expr) {
	name, ok := declared.(*ast.Ident)
	if ok && types.Universe.Lookup(name.Name) != nil {
		c.report(name.Pos(), ruleBuiltin, "declares "+name.Name+", which hides the builtin")
	}
}
