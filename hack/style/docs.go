package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"unicode"
)

// checkDocs wants doc comments of functions and types to begin with the name.
// Tests are exempt: no index shows them.
func (c *checker) checkDocs(file *ast.File) {
	if c.source.isTest() {
		return
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.checkDoc(d.Doc, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.checkTypeDoc(d, spec)
			}
		}
	}
}

// checkTypeDoc looks at the comment of one type, which for a type outside of a
// group is the comment of the declaration.
func (c *checker) checkTypeDoc(d *ast.GenDecl, spec ast.Spec) {
	t, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	doc := t.Doc
	if doc == nil && !d.Lparen.IsValid() {
		doc = d.Doc
	}
	c.checkDoc(doc, t.Name)
}

func (c *checker) checkDoc(doc *ast.CommentGroup, name *ast.Ident) {
	if text := doc.Text(); text != "" && !beginsWith(text, name.Name) {
		c.report(doc.Pos(), ruleDoc, fmt.Sprintf("the comment does not begin with %s", name.Name))
	}
}

// beginsWith reports whether the name is the first word, or the second after an
// article.
func beginsWith(text, name string) bool {
	words := strings.Fields(text)
	if slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(words[0], name)
	return ok && !strings.ContainsFunc(rest, func(r rune) bool { return r == '_' || unicode.IsLetter(r) && r != 's' })
}
