// Package suite runs ginkgo specs under go test such that the outcome of each
// spec reaches the output of "go test -json", where hack/testsum counts it.
// Without it a suite of fifty specs is one test there, and a skipped spec is
// nothing but a letter.
package suite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
)

// keyPrefix begins the name of the test attribute that carries one spec's outcome.
const keyPrefix = "spec-"

// The states of an [Outcome].
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// Outcome is how one spec ended.
type Outcome struct {
	State  string // Passed, Failed or Skipped
	Name   string
	Reason string // of a skip
}

// Run runs all specs of the calling package as one test.
func Run(t *testing.T, name string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.ReportAfterSuite("outcomes", func(report ginkgo.Report) {
		for i, spec := range report.SpecReports {
			if spec.LeafNodeType == types.NodeTypeIt {
				t.Attr(fmt.Sprintf("%s%04d", keyPrefix, i), outcomeOf(spec).encode())
			}
		}
	})
	ginkgo.RunSpecs(t, name)
}

func outcomeOf(spec ginkgo.SpecReport) Outcome {
	o := Outcome{State: Passed, Name: words(spec.FullText())}
	switch {
	case spec.Failed():
		o.State = Failed
	case spec.State == types.SpecStatePending:
		o.State, o.Reason = Skipped, "pending"
	case spec.State == types.SpecStateSkipped:
		o.State, o.Reason = Skipped, words(spec.Failure.Message)
		if o.Reason == "" {
			o.Reason = "filtered out, or an earlier spec of its container failed"
		}
	}
	return o
}

// encode returns one line, as an attribute must be.
func (o Outcome) encode() string {
	return strings.Join([]string{o.State, o.Name, o.Reason}, "\t")
}

// Decode reads an attribute of a test; false if it is not a spec's outcome.
func Decode(key, value string) (Outcome, bool) {
	parts := strings.Split(value, "\t")
	if !strings.HasPrefix(key, keyPrefix) || len(parts) != 3 {
		return Outcome{}, false
	}
	return Outcome{State: parts[0], Name: parts[1], Reason: parts[2]}, true
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }
