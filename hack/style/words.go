package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// words checks the comments, and the strings that are sentences.
var words = &analysis.Analyzer{Name: "words", Doc: "plain words in comments and sentences", Run: checkWords}

// banned are words and turns that slow a reader down, with what to say instead.
var banned = map[string]string{
	"somebody":           "name the actor",
	"nobody":             "name the actor: no other node, no program",
	"whoever":            "name the actor",
	"stranger's":         "foreign",
	"strangers?":         "another program, foreign",
	"but for":            "except",
	"of ours":            "our",
	"may it be":          "whether",
	"lest":               "so that … not",
	"mend(s|ed|ing)?":    "fix",
	"shall":              "will, must, should",
	"prey":               "target, victim",
	"robbed":             "lost",
	"mislaid":            "stale, lost",
	"beside itself":      "say what is wrong",
	"so that it is told": "say who reports it",
	"is what":            "name the thing",
}

// turns matches any of the banned words, across the ends of lines.
var turns = func() *regexp.Regexp {
	var all []string
	for turn := range banned {
		all = append(all, strings.ReplaceAll(turn, " ", `\s+`))
	}
	return regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
}()

// advice says what to write instead of the words found.
func advice(found string) string {
	found = strings.ToLower(strings.Join(strings.Fields(found), " "))
	for turn, better := range banned {
		if regexp.MustCompile("^(" + turn + ")$").MatchString(found) {
			return fmt.Sprintf("%q: %s", found, better)
		}
	}
	return strconv.Quote(found)
}

// eachTurn calls report with the line, counted from first, and the advice for
// each banned turn in the text.
func eachTurn(text string, first int, report func(line int, message string)) {
	for _, at := range turns.FindAllStringIndex(text, -1) {
		report(first+strings.Count(text[:at[0]], "\n"), advice(text[at[0]:at[1]]))
	}
}

func checkWords(pass *analysis.Pass) (any, error) {
	if strings.HasSuffix(pass.Pkg.Path(), "/hack/style") { // where they stand
		return nil, nil
	}
	for _, file := range pass.Files {
		at := func(n ast.Node) func(int, string) {
			of := pass.Fset.File(n.Pos())
			return func(line int, message string) { pass.Reportf(of.LineStart(line), "%s", message) }
		}
		for _, group := range file.Comments {
			var lines []string
			for _, comment := range group.List {
				lines = append(lines, strings.TrimPrefix(comment.Text, "//"))
			}
			eachTurn(strings.Join(lines, "\n"), pass.Fset.Position(group.Pos()).Line, at(group))
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
				eachTurn(literal.Value, pass.Fset.Position(literal.Pos()).Line, at(literal))
			}
			return true
		})
	}
	return nil, nil
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan  = regexp.MustCompile("`[^`]*`")
	hashText  = regexp.MustCompile(`(?m)^(.*?)(#+\s.*)?$`)
)

// documents returns the findings in the files below root that git names: in documents, and in comments after a #.
func documents(root string) ([]string, error) {
	list := exec.Command("git", "ls-files", "-z", "--", "*.md", "*.yaml", "*.yml", "*.txt", "*.conf", "*Makefile",
		"*Vagrantfile", "*Dockerfile", "hack/*", ".ci/run", "deploy/collect")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var found []string
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if strings.HasSuffix(name, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		eachTurn(prose(name, string(text)), 1, func(line int, message string) {
			found = append(found, fmt.Sprintf("%s:%d: %s", name, line, message))
		})
	}
	return found, nil
}

// prose returns a file's text for people. Lines keep their numbers.
func prose(name, text string) string {
	if !strings.HasSuffix(name, ".md") {
		return hashText.ReplaceAllString(text, "$2")
	}
	return codeSpan.ReplaceAllStringFunc(codeBlock.ReplaceAllStringFunc(text, blank), blank)
}

// blank returns only the line ends of a text.
func blank(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }
