package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is a file that the rules apply to.
type source struct {
	name string // relative to the root, with slashes
	text string
}

func (s source) lines() []string { return strings.Split(s.text, "\n") }

// isTest reports whether only tests see the file.
func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// skipped are folders with files that are not ours to write: results of builds,
// and the linter itself, whose tables and tests are full of findings.
var skipped = []string{".git", "bin", "hack/style"}

// hashed are names and endings of files whose comments begin with #.
var hashed = []string{"Makefile", "Vagrantfile", "Dockerfile", ".yaml", ".yml", ".txt", ".conf", "hack/deps", "hack/fuzz",
	"hack/compiling", ".ci/run", "deploy/collect"}

// readTree reads all files below root that a rule applies to.
func readTree(root string) ([]source, error) {
	var files []source
	err := filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if slices.Contains(skipped, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !isGo(name) && !isDocument(name) && !isHashed(name) {
			return nil
		}
		text, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		files = append(files, source{name: name, text: string(text)})
		return nil
	})
	return files, err
}

func isGo(name string) bool       { return strings.HasSuffix(name, ".go") }
func isDocument(name string) bool { return strings.HasSuffix(name, ".md") }

func isHashed(name string) bool {
	return slices.ContainsFunc(hashed, func(end string) bool { return strings.HasSuffix(name, end) })
}

// checkFile returns the findings in one file, map order excepted.
func checkFile(s source) ([]finding, error) {
	if !isGo(s.name) {
		return checkText(s), nil
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, s.name, s.text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	c := &checker{source: s, set: set}
	c.checkLines()
	c.checkWords(file)
	c.checkDocs(file)
	ast.Inspect(file, c.checkNode)
	return allowed(c.findings, []source{s}), nil
}

// checker collects the findings of one Go file.
type checker struct {
	source   source
	set      *token.FileSet
	findings []finding
}

func (c *checker) report(at token.Pos, rule, message string) {
	c.reportLine(c.line(at), rule, message)
}

func (c *checker) reportLine(line int, rule, message string) {
	c.findings = append(c.findings, finding{c.source.name, line, rule, message})
}

func (c *checker) line(at token.Pos) int { return c.set.Position(at).Line }
