package page

import (
	"bytes"
	"html"
	"strings"
	"testing"
)

const hostile = `<b onclick="x()">'&` + "`" + `{{data}}</script>`

// full is a recording with a hostile text wherever one can be.
func full(world string, ok bool) Recording {
	return Recording{
		About: About{Scenario: hostile, World: world, Began: hostile, Seed: hostile, Commit: hostile, Trace: hostile,
			Replay: hostile, Captures: []Capture{{Name: hostile, Path: "javascript:alert(1)//" + hostile}}},
		OK: ok, Summary: []string{"It is `" + hostile + "`", hostile}, Length: 1_234_567,
		Omitted: 3, Missing: []string{hostile},
		Topology: Topology{Backend: hostile, Nodes: []Place{{Name: hostile}}},
		Texts:    []string{hostile},
	}
}

func written(t *testing.T, rec Recording) string {
	t.Helper()
	var text bytes.Buffer
	if err := Write(&text, rec); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// Every place of the page gets its text, and the texts of a recording are never taken for HTML.
func TestWriteEscapes(t *testing.T) {
	for _, world := range []string{"sim", "netns", hostile, Live} {
		for _, ok := range []bool{true, false} {
			text := written(t, full(world, ok))
			plain := written(t, Recording{About: About{World: world}, OK: ok})
			// The recording's own placeholder stays as it is, in HTML and in JSON.
			if n := strings.Count(plain, "{{"); world != hostile && n != 0 {
				t.Errorf("%s: %d places have no text", world, n)
			}
			for _, s := range []string{"<b onclick", `href="javascript:`, "`</script>"} {
				if strings.Contains(text, s) {
					t.Errorf("%s: the page contains %s", world, s)
				}
			}
			if !strings.Contains(text, "<h1>"+html.EscapeString(hostile)+"</h1>") {
				t.Errorf("%s: the page lacks its head", world)
			}
			if got, want := strings.Count(text, "</script>"), strings.Count(plain, "</script>"); got != want {
				t.Errorf("%s: the page ends %d scripts, want %d", world, got, want)
			}
		}
	}
}
