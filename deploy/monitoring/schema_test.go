package monitoring_test

import (
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// schemaFaults checks a dashboard against the schema that Grafana publishes: of dashboards, of
// each kind of panel with its options, and of queries to Prometheus. It does not look at the values
// of options, nor at fields of fieldConfig, which TestDashboard does.
func schemaFaults(text string) string {
	var b dashboard.Dashboard
	if err := b.UnmarshalJSONStrict([]byte(text)); err != nil {
		return err.Error()
	}
	if err := b.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

func TestDashboardFollowsSchema(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text := read(t, "dashboard.json")
	if faults := schemaFaults(text); faults != "" {
		t.Error(faults)
	}
	// The check is known to find faults in each part of a dashboard.
	for name, c := range map[string]struct{ from, to, want string }{
		"the dashboard": {`"refresh": `, `"refreshes": `, "refreshes"},
		"a panel":       {`"gridPos": `, `"gridPosition": `, "gridPosition"},
		"options":       {`"graphMode": `, `"graphMod": `, "unexpected field 'graphMod'"},
		"a query":       {`"legendFormat": `, `"legend": `, "legend"},
	} {
		if !strings.Contains(text, c.from) {
			t.Fatalf("%s: the dashboard has no %s", name, c.from)
		}
		faults := schemaFaults(strings.ReplaceAll(text, c.from, c.to))
		if !strings.Contains(faults, c.want) {
			t.Errorf("%s: %s instead of %s is not found: %q", name, c.to, c.from, faults)
		}
	}
}
