// Package docs_test checks that the documentation is true: every link has its
// target, the sections that code refers to exist, each dependency has a reason.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

// sources returns the text of all files of the tree with one of the endings.
func sources(t *testing.T, endings ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		for _, ending := range endings {
			if strings.HasSuffix(path, ending) {
				data, err := os.ReadFile(path)
				texts[path] = string(data)
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the fragments that link to the headings of a page.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := noSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	pages := sources(t, ".md")
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if fragment != "" && !anchors(pages[path])[fragment] {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
}

var (
	contractRef = regexp.MustCompile(`\b[Ii]nterop (?:sections? )?` +
		`((?:\d+(?:\.\d+)?|[EKPF]\d+)(?:(?:, | and |-)(?:\d+\.\d+|[EKPF]\d+))*)`)
	contractItem = regexp.MustCompile(`(?m)^(?:#+ (\d+(?:\.\d+)?)\b|\| ([EKPF]\d+) )`)
	refSplit     = regexp.MustCompile(`, | and |-`)
	adrRef       = regexp.MustCompile(`(?:docs/adr|ADR) (\d{4})`)
)

func TestReferences(t *testing.T) {
	contract, err := os.ReadFile("interop.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range contractItem.FindAllStringSubmatch(string(contract), -1) {
		known[m[1]+m[2]] = true
	}
	records, err := filepath.Glob("adr/????-*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range records {
		known[filepath.Base(path)[:4]] = true
	}

	for path, text := range sources(t, ".go", ".md", ".txt") {
		for _, m := range contractRef.FindAllStringSubmatch(text, -1) {
			for _, ref := range refSplit.Split(m[1], -1) {
				if !known[ref] {
					t.Errorf("%s refers to interop %s, which does not exist", path, ref)
				}
			}
		}
		for _, m := range adrRef.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s refers to decision record %s, which does not exist", path, m[1])
			}
		}
	}
}

func TestRecordsAreListed(t *testing.T) {
	index, err := os.ReadFile("adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob("adr/????-*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range records {
		if !strings.Contains(string(index), "("+filepath.Base(path)+")") {
			t.Errorf("adr/README.md does not list %s", path)
		}
	}
}

// eventKind matches the kind of a log line, where node and agent name it; the
// kinds of a lane stand in a list of their own (core/node/lane.go).
var eventKind = regexp.MustCompile(
	`(?:\b(?:event|once|Add|Once)\((?:event\.)?(?:Info|Warning|Error), |Kind: |` +
		`\b(?:lookFailed|applied|failed|clean): +)"([a-z-]+)"`)

func TestLogKindsAreExplained(t *testing.T) {
	manual, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for path, text := range sources(t, ".go") {
		logs := strings.HasPrefix(path, "../core/node/") || strings.HasPrefix(path, "../core/agent/")
		if !logs || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range eventKind.FindAllStringSubmatch(text, -1) {
			said[m[1]] = true
		}
	}
	_, rest, _ := strings.Cut(string(manual), "\n## The log\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	for kind := range said {
		if !strings.Contains(table, "`"+kind+"`") {
			t.Errorf("operations.md does not explain log lines that begin with %s:", kind)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(table, -1) {
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			if !said[m[1]] {
				t.Errorf("operations.md explains %s, which neither node nor agent logs", m[1])
			}
		}
	}
}
