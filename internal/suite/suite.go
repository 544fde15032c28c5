// Package suite runs ginkgo specs under go test and puts the outcome of each
// spec into the output of "go test -json", where hack/testsum counts it. Without
// it a suite of fifty specs counts as one test, and a skipped spec is a letter
// in its output.
package suite

import (
	"fmt"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

// Run runs all specs of the calling package as one test.
func Run(t *testing.T, name string) {
	t.Helper()
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.ReportAfterSuite("outcomes", func(report ginkgo.Report) {
		for i, spec := range report.SpecReports {
			if spec.LeafNodeType == types.NodeTypeIt {
				t.Attr(fmt.Sprintf("%s%04d", outcome.KeyPrefix, i), outcomeOf(spec).Encode())
			}
		}
	})
	ginkgo.RunSpecs(t, name)
}

func outcomeOf(spec ginkgo.SpecReport) outcome.Outcome {
	o := outcome.Outcome{State: outcome.Passed, Name: spec.FullText()}
	switch {
	case spec.Failed():
		o.State = outcome.Failed
	case spec.State == types.SpecStatePending:
		o.State, o.Reason = outcome.Skipped, "pending"
	case spec.State == types.SpecStateSkipped:
		o.State, o.Reason = outcome.Skipped, spec.Failure.Message
		if o.Reason == "" {
			o.Reason = "filtered out, or an earlier spec of its container failed"
		}
	}
	return o
}
