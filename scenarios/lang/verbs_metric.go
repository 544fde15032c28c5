package lang

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metered is a daemon with metrics.
type Metered interface {
	// Metrics returns the page that Prometheus reads.
	Metrics() (string, error)
}

// metric performs
//
//	metric n1 flannel_repairs_total [kind=link]... is=1|above=0 [within=30s]
//
// It waits until the sum of the metric's series with these labels equals the number, or
// is above it.
func (s *Session) metric(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	within := settleBound
	a.duration("within", &within)
	node, name := a.word("node"), a.word("metric")
	holds := a.bound()
	labels := a.pairs
	a.pairs = nil
	if err := a.done(); err != nil {
		return "", err
	}
	return "", s.until(within, func() error {
		m, err := nodeWith[Metered](s, node)
		if err != nil {
			return err
		}
		page, err := m.Metrics()
		if err != nil {
			return err
		}
		value, err := sumOf(page, name, labels)
		if err != nil {
			return err
		}
		if !holds(value) {
			return fmt.Errorf("%s of %s is %v", name, node, value)
		}
		return nil
	})
}

// bound reads is=NUMBER or above=NUMBER.
func (a *args) bound() func(float64) bool {
	var is, above string
	if a.text("is", &is) == a.text("above", &above) {
		a.fail("want is=NUMBER or above=NUMBER")
		return nil
	}
	limit, err := strconv.ParseFloat(is+above, 64)
	if err != nil {
		a.fail("%s: want a number", is+above)
	}
	return func(value float64) bool { return above == "" && value == limit || above != "" && value > limit }
}

// sumOf returns the sum of a metric's series that have the labels. A metric without any
// series is an error: its name may be wrong.
func sumOf(page, name string, labels map[string]string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	family := families[name]
	if family == nil {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	sum := 0.0
	for _, m := range family.Metric {
		if !hasLabels(m, labels) {
			continue
		}
		if m.Counter == nil && m.Gauge == nil {
			return 0, errors.New(name + " is neither a counter nor a gauge")
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum, nil
}

// hasLabels reports whether a series has all of the labels.
func hasLabels(m *dto.Metric, labels map[string]string) bool {
	found := 0
	for _, l := range m.Label {
		if want, is := labels[l.GetName()]; is && want == l.GetValue() {
			found++
		}
	}
	return found == len(labels)
}
