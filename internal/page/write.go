package page

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Write writes the page: parts/page.html with a text at each place that it names in
// double braces.
//
// html/template would do this too, but it finds methods by name, and then the linker
// drops no exported method of any type: flannelctl, and flanneld in the image, would be
// 6 MB larger.
func Write(out io.Writer, rec Recording) error {
	data, err := encode(&rec)
	if err != nil {
		return err
	}
	why, err := json.Marshal(Reasons())
	if err != nil {
		return fmt.Errorf("report data: %w", err)
	}
	page, err := read("page.html")
	if err != nil {
		return err
	}
	style, err := read("page.css")
	if err != nil {
		return err
	}
	script, err := read("model.js", "timeline.js", "topology.js", "panels.js", "page.js")
	if err != nil {
		return err
	}
	texts := rec.texts()
	texts["data"] = string(data)
	texts["reasons"] = string(why)
	texts["style"] = style
	texts["script"] = script
	var replacements []string
	for place, text := range texts {
		replacements = append(replacements, "{{"+place+"}}", text)
	}
	if _, err := strings.NewReplacer(replacements...).WriteString(out, page); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// read returns parts of the page, one after the other.
func read(names ...string) (string, error) {
	var text strings.Builder
	for _, name := range names {
		part, err := files.ReadFile("parts/" + name)
		if err != nil {
			return "", fmt.Errorf("report page: %w", err)
		}
		text.Write(part)
	}
	return text.String(), nil
}
