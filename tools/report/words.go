package report

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flanneld/flannel/internal/page"
)

// mostSentences is the number of troubles that the summary names.
const mostSentences = 8

// conclude writes the summary, and chooses the node to show first.
func (b *builder) conclude(rec *page.Recording) {
	ready, asked := 0, 0
	troubled := ""
	for _, h := range b.hosts {
		if h.daemon == nil {
			continue
		}
		asked++
		rec.FocusOn = cmp.Or(rec.FocusOn, h.name)
		if h.daemon.Status.Ready {
			ready++
		}
		if b.judge(h) && troubled == "" {
			troubled = h.name
		}
	}
	rec.FocusOn = cmp.Or(troubled, rec.FocusOn)
	b.troubles = append(b.troubles, b.mesh.Warnings...)
	unlearnt := 0
	for _, d := range b.daemons {
		unlearnt += len(d.Missing)
	}
	rec.Missing = b.missing
	rec.OK = asked > 0 && len(b.troubles) == 0 && unlearnt == 0
	rec.Summary = []string{b.overview(ready, asked)}
	for i, text := range b.troubles {
		if i == mostSentences {
			rec.Summary = append(rec.Summary, fmt.Sprintf("And %s.", count(len(b.troubles)-i, "further trouble")))
			break
		}
		rec.Summary = append(rec.Summary, sentence(text))
	}
	if unlearnt > 0 {
		rec.Summary = append(rec.Summary, fmt.Sprintf("%s could not be learnt: see below.", count(unlearnt, "thing")))
	}
	for i, p := range rec.Probes {
		if !p.OK {
			rec.Packet = i
		}
	}
}

// sentence begins a text with a capital letter and ends it with a full stop.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + strings.TrimRight(text[size:], ".") + "."
}

// overview counts the nodes.
func (b *builder) overview(ready, asked int) string {
	text := fmt.Sprintf("%d of %s that answered are ready", ready, count(asked, "daemon"))
	if asked == 1 {
		text = "The daemon that answered is ready"
		if ready == 0 {
			text = "The daemon that answered is not ready"
		}
	}
	if asked == 0 {
		return "No daemon has answered."
	}
	if others := len(b.hosts) - asked + b.hidden; others > 0 {
		text += fmt.Sprintf("; %s did not answer or %s not asked", count(others, "further node"),
			map[bool]string{true: "was", false: "were"}[others == 1])
	}
	return text + "."
}

// judge adds the troubles of a node, and reports whether it has any.
func (b *builder) judge(h host) bool {
	s, before := h.daemon.Status, len(b.troubles)
	switch {
	case !s.Ready && len(s.Reasons) > 0:
		b.troubles = append(b.troubles, fmt.Sprintf("%s is not ready: %s", h.name, s.Reasons[0]))
	case !s.Ready:
		b.troubles = append(b.troubles, h.name+" is not ready")
	}
	for _, text := range append(s.Unhealthy, s.Problems...) {
		b.troubles = append(b.troubles, h.name+": "+text)
	}
	if h.daemon.Diff != nil {
		if ops := shortage(*h.daemon.Diff); len(ops) > 0 {
			b.troubles = append(b.troubles, fmt.Sprintf("The host %s differs from its desired state in %s, the first: `%s`",
				h.name, count(len(ops), "object"), ops[0]))
		}
	}
	return len(b.troubles) > before
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
