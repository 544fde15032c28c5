package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestRules(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), statements, "x/core/statements")
	analysistest.Run(t, analysistest.TestData(), words, "x/core/words")
	analysistest.Run(t, analysistest.TestData(), mapOrder, "x/core/maporder")
}

func TestProse(t *testing.T) {
	for _, c := range [...]struct{ name, text, want string }{
		{"a.md", "Fine.\n\n```\nshall\n```\n`shall`, and", "Fine.\n\n\n\n\n, and"},
		{"Makefile", "# Somebody.\nshall: ## lest", "# Somebody.\n## lest"},
	} {
		if got := prose(c.name, c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
