package monitoring_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// board is the part of Grafana's schema of dashboards that ours uses. Other fields are
// errors: Grafana ignores a field whose name is misspelt.
type board struct {
	Title, UID, Description, Refresh, Timezone string
	Tags                                       []string
	SchemaVersion, Version                     int
	Editable                                   bool
	Time                                       struct{ From, To string }
	Templating                                 struct{ List []variable }
	Annotations                                struct{ List []struct{} }
	Panels                                     []panel
}

type variable struct {
	Name, Type, Label, AllValue string
	Query                       any
	Datasource                  source
	Refresh                     int
	Multi, IncludeAll           bool
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Title, Description, Type string
	GridPos                  struct{ X, Y, W, H int }
	Collapsed                bool
	Panels                   []panel
	Datasource               source
	FieldConfig              struct {
		Defaults struct {
			Unit       string
			Min        *float64
			Decimals   *int
			Color      struct{ Mode string }
			Thresholds struct {
				Mode  string
				Steps []struct {
					Color string
					Value *float64
				}
			}
			Custom struct {
				FillOpacity int
				AxisSoftMax float64
				Stacking    struct{ Mode, Group string }
			}
		}
		Overrides []override
	}
	Options         map[string]any
	Transformations []struct {
		ID      string
		Options map[string]any
	}
	Targets []target
}

// override gives the series whose names match a colour.
type override struct {
	Matcher    struct{ ID, Options string }
	Properties []struct {
		ID    string
		Value struct{ Mode, FixedColor string }
	}
}

type target struct {
	RefID, Expr, LegendFormat, Format string
	Instant                           bool
	Datasource                        source
}

// The values that Grafana knows, of those that a dashboard about flannel can need.
var (
	panelTypes = []string{"row", "stat", "timeseries", "table"}
	units      = []string{"", "s", "ops", "pps", "bytes", "percentunit", "short"}
)

func readBoard(t *testing.T) (b board) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(read(t, "dashboard.json")))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Every panel has an id and a place of its own, below the row of its subject, and shows
// something.
func TestDashboard(t *testing.T) {
	b := readBoard(t)
	if b.UID != "flannel" || b.SchemaVersion < 36 || b.Time.From == "" {
		t.Errorf("uid %q, schema version %d, time from %q", b.UID, b.SchemaVersion, b.Time.From)
	}
	var rows []string
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if other, is := ids[p.ID]; is || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %q has id %d, which %q has too", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		if !slices.Contains(panelTypes, p.Type) || !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
			t.Errorf("%s: type %q, unit %q", p.Title, p.Type, p.FieldConfig.Defaults.Unit)
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else {
			checkTargets(t, p)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("%s overlaps %q or the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	want := []string{"Readiness", "Peers and probes", "Repairs", "Userspace paths", "Process"}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
}

// checkTargets checks the queries of a panel: each has an id, goes to the data source that
// the reader chooses, and names metrics of the daemon.
func checkTargets(t *testing.T, p panel) {
	t.Helper()
	if len(p.Targets) == 0 {
		t.Errorf("%s shows nothing", p.Title)
	}
	chosen := source{"prometheus", "${datasource}"}
	ids := map[string]bool{}
	for _, q := range p.Targets {
		if ids[q.RefID] || q.RefID == "" || p.Datasource != chosen || q.Datasource != chosen {
			t.Errorf("%s: query %q of %+v", p.Title, q.RefID, q.Datasource)
		}
		ids[q.RefID] = true
		if !strings.Contains(q.Expr, `{job="$job",instance=~"$instance"`) {
			t.Errorf("%s: %s does not depend on the job and the node that the reader chooses", p.Title, q.Expr)
		}
		if !named.MatchString(q.Expr) {
			t.Errorf("%s: %s names no metric", p.Title, q.Expr)
		}
		known(t, q.Expr)
	}
}

// Each variable that an expression names is one of the dashboard's, or Grafana's own.
func TestDashboardVariables(t *testing.T) {
	b := readBoard(t)
	names := []string{"$__rate_interval"}
	for _, v := range b.Templating.List {
		names = append(names, "$"+v.Name)
		text, err := json.Marshal(v.Query)
		if err != nil {
			t.Fatal(err)
		}
		known(t, string(text))
	}
	for _, p := range b.Panels {
		for _, q := range p.Targets {
			for _, name := range variables.FindAllString(q.Expr, -1) {
				if !slices.Contains(names, name) {
					t.Errorf("%s: there is no variable %s", p.Title, name)
				}
			}
		}
	}
}

// Prometheus parses every expression, with values in the place of the variables.
func TestDashboardExpressions(t *testing.T) {
	values := strings.NewReplacer("$__rate_interval", "5m", "$job", "flannel", "$instance", ".*")
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, p := range readBoard(t).Panels {
		for _, q := range p.Targets {
			rules = append(rules, rule{"panel", values.Replace(q.Expr)})
		}
	}
	var file bytes.Buffer // JSON is YAML
	err := json.NewEncoder(&file).Encode(map[string]any{"groups": []any{map[string]any{"name": "g", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", "--lint=none", path)
}
