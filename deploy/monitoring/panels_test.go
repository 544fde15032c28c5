package monitoring_test

import (
	"regexp"
	"strings"
	"testing"
)

// Nothing that the dashboard draws over time is ever negative. An axis that Grafana chooses
// would show a loss of one node in a hundred as a fall to the ground.
func TestDashboardAxesBeginAtZero(t *testing.T) {
	for _, p := range readBoard(t).Panels {
		if low := p.FieldConfig.Defaults.Min; p.Type == "timeseries" && (low == nil || *low != 0) {
			t.Errorf("%s: the axis does not begin at 0", p.Title)
		}
	}
}

// Grafana gives series their colours in the order of their names. So each state of a stacked
// panel has a colour of its own: that of the good state is not red.
func TestDashboardColours(t *testing.T) {
	values := regexp.MustCompile(`="([^"]*)"`).FindAllStringSubmatch(page(), -1)
	for _, p := range readBoard(t).Panels {
		if p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" && len(p.FieldConfig.Overrides) == 0 {
			t.Errorf("%s: the states have no colours of their own", p.Title)
		}
		for _, o := range p.FieldConfig.Overrides {
			want := colourPattern(t, o)
			found := false
			for _, v := range values {
				found = found || want.MatchString(v[1])
			}
			if !found {
				t.Errorf("%s: no series of the daemon matches %q", p.Title, o.Matcher.Options)
			}
			for _, v := range o.Properties {
				if v.ID != "color" || v.Value.Mode != "fixed" || v.Value.FixedColor == "" {
					t.Errorf("%s: %+v is no colour", p.Title, v)
				}
			}
		}
	}
}

// colourPattern returns what an override matches. Grafana takes an expression without slashes for
// one of the whole name.
func colourPattern(t *testing.T, o override) *regexp.Regexp {
	t.Helper()
	text := o.Matcher.Options
	if o.Matcher.ID == "byName" {
		return regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$")
	}
	inner, begins := strings.CutPrefix(text, "/")
	inner, ends := strings.CutSuffix(inner, "/")
	if o.Matcher.ID != "byRegexp" || !begins || !ends {
		t.Fatalf("the override %+v is not understood", o)
	}
	return regexp.MustCompile(inner)
}
