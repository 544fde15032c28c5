package main

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/analysis"
)

// statements checks that one statement does one thing.
var statements = &analysis.Analyzer{Name: "statements", Doc: "one statement does one thing", Run: checkStatements}

func checkStatements(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		if ast.IsGenerated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if message := flaw(n); message != "" {
				pass.Reportf(n.Pos(), "%s", message)
			}
			return true
		})
	}
	return nil, nil
}

// flaw says what is wrong with one node of the syntax tree, if anything is.
func flaw(n ast.Node) string {
	switch n := n.(type) {
	case *ast.IfStmt:
		if changes(n.Init) {
			return "the initialiser of this if changes state: make it a statement of its own"
		}
	case *ast.SwitchStmt:
		if changes(n.Init) {
			return "the initialiser of this switch changes state: make it a statement of its own"
		}
	case *ast.AssignStmt:
		fromCall := len(n.Rhs) == 1 && n.Tok == token.DEFINE
		if len(n.Lhs) >= 3 && !fromCall {
			return "assigns three values or more in one statement"
		}
	case *ast.ValueSpec:
		if len(n.Values) >= 3 {
			return "declares three values or more in one statement"
		}
	case *ast.CaseClause:
		if len(n.Body) == 0 {
			return "a case without statements: say the condition in an if"
		}
	}
	return ""
}

// changes reports whether an initialiser does more than declare.
func changes(init ast.Stmt) bool {
	if init == nil {
		return false
	}
	a, ok := init.(*ast.AssignStmt)
	return !ok || a.Tok != token.DEFINE
}
