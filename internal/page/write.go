package page

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed parts
var files embed.FS

// WriteFile writes the page into a file. It creates the folder.
func WriteFile(path string, rec Recording) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("folder of the report: %w", err)
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := errors.Join(Write(out, rec), out.Close()); err != nil {
		return fmt.Errorf("report %s: %w", path, err)
	}
	return nil
}

// Write writes the page.
func Write(out io.Writer, rec Recording) error {
	page, err := template.New("page.html").Funcs(template.FuncMap{"words": words, "span": Span}).ParseFS(files,
		"parts/page.html")
	if err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	data, err := encode(&rec)
	if err != nil {
		return err
	}
	why, err := json.Marshal(Reasons())
	if err != nil {
		return fmt.Errorf("report data: %w", err)
	}
	style, err := files.ReadFile("parts/page.css")
	if err != nil {
		return fmt.Errorf("report style: %w", err)
	}
	var script strings.Builder
	for _, name := range []string{"model.js", "timeline.js", "topology.js", "panels.js", "page.js"} {
		part, err := files.ReadFile("parts/" + name)
		if err != nil {
			return fmt.Errorf("report script: %w", err)
		}
		script.Write(part)
	}
	err = page.Execute(out, map[string]any{
		"Rec": rec, "Live": rec.About.World == Live, "Data": template.JS(data), "Reasons": template.JS(why),
		"Style": template.CSS(style), "Script": template.JS(script.String()),
	})
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

var code = regexp.MustCompile("`([^`]*)`")

// words renders a sentence, with text in backquotes as code.
func words(s string) template.HTML {
	return template.HTML(code.ReplaceAllString(html.EscapeString(s), "<code>$1</code>"))
}
