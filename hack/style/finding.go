package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The rules, in the order of the table's columns.
const (
	ruleWord    = "word"
	ruleInit    = "if-init"
	ruleTriple  = "triple"
	ruleCase    = "empty-case"
	ruleLine    = "long-line"
	ruleBuiltin = "builtin"
	ruleFunc    = "long-func"
	ruleFile    = "long-file"
	ruleDoc     = "doc"
	ruleOrder   = "map-order"
	ruleDump    = "dump"
)

var rules = []string{
	ruleWord, ruleInit, ruleTriple, ruleCase, ruleLine,
	ruleBuiltin, ruleFunc, ruleFile, ruleDoc, ruleOrder, ruleDump,
}

// finding is one place that breaks one rule.
type finding struct {
	file    string // relative to the root of the tree, with slashes
	line    int
	rule    string
	message string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.file, f.line, f.rule, f.message)
}

func compareFindings(a, b finding) int {
	return cmp.Or(
		cmp.Compare(a.file, b.file),
		cmp.Compare(a.line, b.line),
		cmp.Compare(a.rule, b.rule),
		cmp.Compare(a.message, b.message),
	)
}

// allowed returns the findings without those that a comment in their file allows.
func allowed(findings []finding, files []source) []finding {
	lines := map[string][]string{}
	for _, f := range files {
		lines[f.name] = f.lines()
	}
	return slices.DeleteFunc(findings, func(f finding) bool {
		return allows(lines[f.file], f.line, f.rule) || allows(lines[f.file], f.line-1, f.rule)
	})
}

// allows reports whether the line, counted from 1, allows the rule to be broken.
func allows(lines []string, line int, rule string) bool {
	return line >= 1 && line <= len(lines) && strings.Contains(lines[line-1], "style:allow "+rule+":")
}
