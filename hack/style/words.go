package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

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

// checkWords looks at the comments and at the strings that are sentences.
func (c *checker) checkWords(file *ast.File) {
	report := func(line int, message string) { c.reportLine(line, ruleWord, message) }
	for _, group := range file.Comments {
		var lines []string
		for _, comment := range group.List {
			lines = append(lines, strings.TrimPrefix(comment.Text, "//"))
		}
		eachTurn(strings.Join(lines, "\n"), c.line(group.Pos()), report)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
			eachTurn(literal.Value, c.line(literal.Pos()), report)
		}
		return true
	})
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan  = regexp.MustCompile("`[^`]*`")
	hashText  = regexp.MustCompile(`(?m)^(.*?)(#+\s.*)?$`)
)

// checkText looks at a document, or at the comments of a file that has them
// after a #.
func checkText(s source) []finding {
	text := s.text
	if isDocument(s.name) {
		text = codeSpan.ReplaceAllStringFunc(codeBlock.ReplaceAllStringFunc(text, blank), blank)
	} else {
		text = hashText.ReplaceAllString(text, "$2")
	}
	var findings []finding
	eachTurn(text, 1, func(line int, message string) {
		findings = append(findings, finding{s.name, line, ruleWord, message})
	})
	return allowed(findings, []source{s})
}

// blank returns only the line ends of a text, so that lines keep their numbers.
func blank(text string) string { return strings.Repeat("\n", strings.Count(text, "\n")) }
