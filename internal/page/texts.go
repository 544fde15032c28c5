package page

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
)

// texts returns the texts in HTML for the places of the page, except its data, style and
// script. Every text of the recording passes through html.EscapeString.
func (rec *Recording) texts() map[string]string {
	var summary strings.Builder
	for _, sentence := range rec.Summary {
		summary.WriteString(words(sentence) + " ")
	}
	texts := rec.textsOfRun()
	if rec.About.World == Live {
		texts = rec.textsOfCluster()
	}
	texts["name"] = html.EscapeString(rec.About.Scenario)
	texts["summary"] = summary.String()
	texts["facts"] += rec.identity()
	texts["replay"] = html.EscapeString(rec.About.Replay)
	texts["omitted"] = ""
	if rec.Omitted > 0 {
		texts["omitted"] = fmt.Sprintf("%d events or ways are left out, so that the page stays small. ", rec.Omitted)
	}
	return texts
}

// textsOfRun returns the texts that tell of a scenario.
func (rec *Recording) textsOfRun() map[string]string {
	name, world := html.EscapeString(rec.About.Scenario), html.EscapeString(rec.About.World)
	place := world + ", real kernel"
	if rec.About.World == "sim" {
		place = "simulator, virtual time"
	}
	texts := map[string]string{
		"class":  "",
		"facts":  fact("world", place) + fact("length", Span(rec.Length)),
		"origin": "replay",
		"reach": "The last packet sent before the moment shown, from the row’s pod to the column’s. " +
			"Choose one for its way.",
		"steps":  `<h2 id="h-steps">Scenario</h2>` + "\n" + `    <ol id="steps"></ol>`,
		"leases": "Leases in the store",
		"manual": "simulation.md",
	}
	if rec.OK {
		texts["title"], texts["focus"] = "passed: "+name+" ("+world+")", "end"
		texts["verdict"] = verdict("ok", "✓ passed")
	} else {
		texts["title"], texts["focus"] = "FAILED: "+name+" ("+world+")", "failure"
		texts["verdict"] = verdict("bad", "✕ failed")
	}
	return texts
}

// textsOfCluster returns the texts that tell of a live cluster.
func (rec *Recording) textsOfCluster() map[string]string {
	name := html.EscapeString(rec.About.Scenario)
	missing := "<li>nothing: all that was asked has answered</li>"
	if len(rec.Missing) > 0 {
		missing = ""
	}
	for _, m := range rec.Missing {
		missing += "<li>" + html.EscapeString(m) + "</li>"
	}
	texts := map[string]string{
		"class": ` class="live"`,
		"facts": fact("world", "live cluster") + fact("oldest event", "<time>"+html.EscapeString(rec.About.Began)+
			"</time>, "+Span(rec.Length)+" before this page; times are those of each node’s own clock"),
		"origin": "made by",
		"focus":  "now",
		"reach": "Whether the probes from the row’s node to the column’s are answered; ! means only some kinds of " +
			"packets. Choose one for its way.",
		"steps": `<h2 id="h-steps">Not known</h2>` + "\n" + `    <ul id="missing">` + missing + "</ul>\n" +
			`    <ol id="steps" hidden></ol>`,
		"leases": "Subnets, as the daemons know them now",
		"manual": "flannelctl.md",
	}
	if rec.OK {
		texts["title"], texts["verdict"] = name, verdict("ok", "✓ all is well")
	} else {
		texts["title"], texts["verdict"] = "trouble: "+name, verdict("bad", "✕ trouble")
	}
	return texts
}

// identity returns the facts by which a run can be told from others, and found again.
func (rec *Recording) identity() string {
	var facts strings.Builder
	for _, f := range [][2]string{
		{"seed", rec.About.Seed}, {"commit", rec.About.Commit}, {"trace hash", rec.About.Trace},
	} {
		if f[1] != "" {
			facts.WriteString(fact(f[0], "<code>"+html.EscapeString(f[1])+"</code>"))
		}
	}
	if len(rec.About.Captures) > 0 {
		facts.WriteString(`    <div class="wide"><dt>packets (pcap)</dt><dd>`)
		for _, c := range rec.About.Captures {
			// A URL without a scheme, whatever the path contains.
			to := url.URL{Path: c.Path}
			fmt.Fprintf(&facts, `<a href="%s">%s</a> `, html.EscapeString(to.String()), html.EscapeString(c.Name))
		}
		facts.WriteString("</dd></div>\n")
	}
	return facts.String()
}

// fact returns a line of the facts about a recording.
func fact(name, value string) string {
	return "    <div><dt>" + name + "</dt><dd>" + value + "</dd></div>\n"
}

func verdict(class, text string) string {
	return `<p class="verdict ` + class + `" id="verdict">` + text + "</p>"
}

var code = regexp.MustCompile("`([^`]*)`")

// words renders a sentence, with text in backquotes as code.
func words(s string) string {
	return code.ReplaceAllString(html.EscapeString(s), "<code>$1</code>")
}
