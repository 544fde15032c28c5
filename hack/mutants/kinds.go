package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

// visit makes the mutants of a node, and reports whether its parts may have some.
func (f *finder) visit(n ast.Node) bool {
	if e, ok := n.(ast.Expr); ok && f.info.Types[e].Value != nil {
		f.constant(e)
		return false
	}
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.ForStmt:
		f.condition(n.Cond)
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.ReturnStmt:
		f.results(n)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.CompositeLit:
		f.fields(n)
	}
	return true
}

// constant doubles a duration. Other constants stay: the mutants of the
// comparisons and fields around them say more.
func (f *finder) constant(e ast.Expr) {
	isDuration := types.TypeString(f.info.TypeOf(e), nil) == "time.Duration"
	if !isDuration || !f.mentionsType(e) || constant.Sign(f.info.Types[e].Value) == 0 {
		return
	}
	id := f.add(e, f.text(e), "twice "+f.text(e))
	f.wrap(e, fmt.Sprintf("mutantTwice(%d, ", id), ")")
}

// mentionsType reports whether an expression has a type of its own. A bare number, or
// a constant without a type, gets its type from its context.
func (f *finder) mentionsType(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		id, isName := n.(*ast.Ident)
		if !isName {
			return !found
		}
		switch o := f.info.Uses[id].(type) {
		case *types.TypeName:
			found = true
		case *types.Const:
			b, basic := o.Type().(*types.Basic)
			found = found || !basic || b.Info()&types.IsUntyped == 0
		}
		return !found
	})
	return found
}

// statements leaves out one statement of a list.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		if !f.removable(s) {
			continue
		}
		id := f.add(s, f.text(s), "nothing")
		f.wrap(s, fmt.Sprintf("if !mutantOn(%d) { ", id), " }")
	}
}

// removable reports whether the function compiles without the statement.
func (f *finder) removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		return ok && types.ExprString(call.Fun) != "panic"
	case *ast.BranchStmt:
		return s.Tok == token.BREAK || s.Tok == token.CONTINUE
	case *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		return true
	}
	return false
}

// cases negates the conditions of a switch without a tag.
func (f *finder) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, clause := range n.Body.List {
		for _, e := range clause.(*ast.CaseClause).List {
			f.condition(e)
		}
	}
}

// condition negates an expression, unless its operator has mutants of its own.
func (f *finder) condition(e ast.Expr) {
	if e == nil || !f.isBool(e) {
		return
	}
	if _, ok := ast.Unparen(e).(*ast.BinaryExpr); ok {
		return
	}
	f.negate(e)
}

func (f *finder) negate(e ast.Expr) {
	f.unless(e, f.add(e, f.text(e), "not "+f.text(e)))
}

// unless negates a truth value while a mutant is in force.
func (f *finder) unless(e ast.Expr, id int) {
	f.wrap(e, "((", fmt.Sprintf(") != mutantOn(%d))", id))
}

// isBool reports whether an expression has the type bool itself.
func (f *finder) isBool(e ast.Expr) bool {
	b, ok := f.info.TypeOf(e).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

// results negates the truth values that a function returns, and makes its errors nil.
func (f *finder) results(n *ast.ReturnStmt) {
	for _, e := range n.Results {
		t := f.info.TypeOf(e)
		if types.Identical(t, types.Universe.Lookup("error").Type()) {
			id := f.add(e, f.text(e), "nil")
			f.wrap(e, fmt.Sprintf("mutantNil(%d, ", id), ")")
		}
		f.condition(e)
	}
}

// binary replaces an operator.
func (f *finder) binary(n *ast.BinaryExpr) {
	switch n.Op {
	case token.LAND, token.LOR:
		f.logic(n)
	case token.EQL, token.NEQ:
		if f.isBool(n) {
			f.unless(n, f.add(n, f.text(n), f.with(n, opposite[n.Op])))
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.order(n)
	default:
		f.arithmetic(n)
	}
}

var opposite = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS,
	token.GTR: token.LEQ, token.LEQ: token.GTR,
}

// bounds are the comparisons that differ only for equal operands.
var bounds = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// with returns the text of an expression with another operator.
func (f *finder) with(n *ast.BinaryExpr, op token.Token) string {
	return f.text(n.X) + " " + op.String() + " " + f.text(n.Y)
}

// logic exchanges "and" and "or". By De Morgan's law, negating both operands and
// the result does so, and the right operand is evaluated only if it counts.
func (f *finder) logic(n *ast.BinaryExpr) {
	if !f.isBool(n) || !f.isBool(n.X) || !f.isBool(n.Y) {
		return
	}
	id := f.add(n, f.text(n), f.with(n, opposite[n.Op]))
	for _, e := range []ast.Expr{n, n.X, n.Y} {
		f.unless(e, id)
	}
}

// helpers are the generated functions that stand for an operator.
var helpers = map[token.Token]string{
	token.LSS: "mutantLess", token.LEQ: "mutantLessEqual",
	token.GTR: "mutantGreater", token.GEQ: "mutantGreaterEqual",
	token.ADD: "mutantAdd", token.SUB: "mutantSub", token.MUL: "mutantMul", token.QUO: "mutantQuo",
	token.REM: "mutantRem", token.AND: "mutantAnd", token.OR: "mutantOr",
}

// swapped are the operators that such a function exchanges.
var swapped = map[token.Token]token.Token{
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.REM: token.MUL, token.AND: token.OR, token.OR: token.AND,
}

// order moves the bound of a comparison, or negates it.
func (f *finder) order(n *ast.BinaryExpr) {
	if !f.isBool(n) || f.basic(n.X) == nil || f.basic(n.Y) == nil {
		return
	}
	bound := f.add(n, f.text(n), f.with(n, bounds[n.Op]))
	negated := f.add(n, f.text(n), f.with(n, opposite[n.Op]))
	f.wrap(n, fmt.Sprintf("%s(%d, %d, ", helpers[n.Op], bound, negated), ")")
	f.replaceOperator(n.OpPos, n.Op, ",")
}

func (f *finder) arithmetic(n *ast.BinaryExpr) {
	b := f.basic(n)
	if b == nil || b.Info()&types.IsInteger == 0 || swapped[n.Op] == token.ILLEGAL {
		return
	}
	id := f.add(n, f.text(n), f.with(n, swapped[n.Op]))
	f.wrap(n, fmt.Sprintf("%s(%d, ", helpers[n.Op], id), ")")
	f.replaceOperator(n.OpPos, n.Op, ",")
}

// basic returns the basic type below that of an expression; nil for others.
func (f *finder) basic(e ast.Expr) *types.Basic {
	b, _ := f.info.TypeOf(e).Underlying().(*types.Basic)
	return b
}

// fields leaves out one field of a struct.
func (f *finder) fields(n *ast.CompositeLit) {
	if _, ok := underlying(f.info.TypeOf(n)).(*types.Struct); !ok {
		return
	}
	for _, e := range n.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		helper, ok := f.zero(field.Value)
		if ok {
			id := f.add(field, f.text(field), "no "+f.text(field.Key))
			f.wrap(field.Value, fmt.Sprintf("%s(%d, ", helper, id), ")")
		}
	}
}

// zero returns the name of the function that makes a value zero; false if it is
// zero already or the value does not show its type.
func (f *finder) zero(e ast.Expr) (string, bool) {
	value, t := f.info.Types[e].Value, f.info.TypeOf(e)
	basic, ok := t.(*types.Basic)
	if value == nil {
		return "mutantZero", !ok || basic.Kind() != types.UntypedNil
	}
	if !ok || isZero(value) {
		return "", false
	}
	return "mutantZero[" + basic.Name() + "]", true
}

func isZero(v constant.Value) bool {
	switch v.Kind() {
	case constant.Bool:
		return !constant.BoolVal(v)
	case constant.String:
		return constant.StringVal(v) == ""
	}
	return constant.Sign(v) == 0
}

// underlying returns the type below a name or a pointer.
func underlying(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.Underlying()
}
