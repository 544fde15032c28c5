package monitoring

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"gopkg.in/yaml.v3"
)

const folder = "../../deploy/monitoring"

var language = parser.NewParser(parser.Options{})

func TestRules(t *testing.T) {
	groups, errs := rulefmt.ParseFile(filepath.Join(folder, "alerts.yaml"), false, model.UTF8Validation, language)
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) == 0 && len(groups.Groups) == 0 {
		t.Error("no rules")
	}
}

// TestBadRules shows that the check finds what is wrong with rules.
func TestBadRules(t *testing.T) {
	const head = "groups:\n  - name: flannel\n    rules:\n      - "
	for _, rule := range []string{
		"{alert: A, expr: 'flannel_ready =='}", "{alert: A, expr: flannel_ready, within: 5m}", "{alert: A}",
		"{alert: A, expr: flannel_ready, annotations: {summary: '{{ $labels.instance'}}",
	} {
		if _, errs := rulefmt.Parse([]byte(head+rule+"\n"), false, model.UTF8Validation, language); len(errs) == 0 {
			t.Errorf("nothing is wrong with %s", rule)
		}
	}
}

// cases are the content of alerts_test.yaml, in the form of "promtool test rules".
type cases struct {
	RuleFiles []string       `yaml:"rule_files"`
	Interval  model.Duration `yaml:"evaluation_interval"`
	Tests     []testCase     `yaml:"tests"`
}

type testCase struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Queries []query  `yaml:"promql_expr_test"`
	Alerts  []firing `yaml:"alert_rule_test"`
}

type query struct {
	Expr string         `yaml:"expr"`
	At   model.Duration `yaml:"eval_time"`
	Want []struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	} `yaml:"exp_samples"`
}

type firing struct {
	Name string         `yaml:"alertname"`
	At   model.Duration `yaml:"eval_time"`
	Want []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all cases
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true) // a member that this test does not know must not pass for tested
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	if len(all.Tests) == 0 {
		t.Fatal("no cases")
	}
	var files []string
	for _, file := range all.RuleFiles {
		files = append(files, filepath.Join(folder, file))
	}
	for _, c := range all.Tests {
		t.Run(c.Name, func(t *testing.T) { c.run(t, time.Duration(all.Interval), files) })
	}
}

// run loads the series of a case, evaluates the rules as time passes, and compares.
func (c testCase) run(t *testing.T, step time.Duration, files []string) {
	load := fmt.Sprintf("load %s\n", c.Interval)
	for _, s := range c.Series {
		load += fmt.Sprintf("  %s %s\n", s.Series, s.Values)
	}
	world, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true, // as in Prometheus
	})
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(world.QueryEngine(), world.Storage()),
		Appendable: world.Storage(), Queryable: world.Storage(), Context: t.Context(), Logger: promslog.NewNopLogger(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Parser: language,
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, files...)
	for _, err := range errs {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			r.SetRestored(true) // there is no former run whose alerts would have to be restored first
		}
	}
	checked := 0
	for at := time.Duration(0); at <= c.end(); at += step {
		now := time.Unix(0, 0).Add(at)
		world.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(t.Context(), now)
			}
		})
		checked += c.checkAt(t, at, world, groups)
	}
	if want := len(c.Queries) + len(c.Alerts); checked != want || want == 0 {
		t.Errorf("%d of %d checks done: their times are no multiples of %s", checked, want, step)
	}
}

// end returns the time of the last check.
func (c testCase) end() (last time.Duration) {
	for _, q := range c.Queries {
		last = max(last, time.Duration(q.At))
	}
	for _, a := range c.Alerts {
		last = max(last, time.Duration(a.At))
	}
	return last
}

// checkAt makes the checks of a moment, and returns how many there are.
func (c testCase) checkAt(t *testing.T, at time.Duration, world *promqltest.LazyLoader,
	groups map[string]*rules.Group) (n int) {
	t.Helper()
	for _, q := range c.Queries {
		if time.Duration(q.At) == at {
			q.check(t, world)
			n++
		}
	}
	for _, a := range c.Alerts {
		if time.Duration(a.At) == at {
			a.check(t, groups)
			n++
		}
	}
	return n
}

func (q query) check(t *testing.T, world *promqltest.LazyLoader) {
	t.Helper()
	ask := rules.EngineQueryFunc(world.QueryEngine(), world.Storage())
	have, err := ask(t.Context(), q.Expr, time.Unix(0, 0).Add(time.Duration(q.At)))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range have {
		got = append(got, fmt.Sprintf("%s %v", s.Metric, s.F))
	}
	for _, w := range q.Want {
		metric, err := language.ParseMetric(w.Labels)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%s %v", metric, w.Value))
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s at %s (-want +got):\n%s", q.Expr, q.At, d)
	}
}

// check compares the alerts of one name that fire.
func (a firing) check(t *testing.T, groups map[string]*rules.Group) {
	t.Helper()
	var got, want []string
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			for _, alert := range r.ActiveAlerts() {
				if r.Name() == a.Name && alert.State == rules.StateFiring {
					got = append(got, alert.Labels.String()+alert.Annotations.String())
				}
			}
		}
	}
	for _, w := range a.Want {
		all := maps.Clone(w.Labels)
		all[labels.AlertName] = a.Name
		want = append(want, labels.FromMap(all).String()+labels.FromMap(w.Annotations).String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s at %s (-want +got):\n%s", a.Name, a.At, d)
	}
}
