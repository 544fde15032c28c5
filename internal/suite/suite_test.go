package suite

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

func TestOutcome(t *testing.T) {
	spec := func(state types.SpecState, message string) ginkgo.SpecReport {
		return ginkgo.SpecReport{
			ContainerHierarchyTexts: []string{"a store"},
			LeafNodeText:            "keeps",
			State:                   state,
			Failure:                 types.Failure{Message: message},
		}
	}
	const name = "a store keeps"
	tests := []struct {
		spec ginkgo.SpecReport
		want outcome.Outcome
	}{
		{spec(types.SpecStatePassed, ""), outcome.Outcome{State: outcome.Passed, Name: name}},
		{spec(types.SpecStateFailed, "boom"), outcome.Outcome{State: outcome.Failed, Name: name}},
		{spec(types.SpecStatePanicked, "boom"), outcome.Outcome{State: outcome.Failed, Name: name}},
		{spec(types.SpecStateTimedout, "late"), outcome.Outcome{State: outcome.Failed, Name: name}},
		{spec(types.SpecStatePending, ""), outcome.Outcome{State: outcome.Skipped, Name: name, Reason: "pending"}},
		{spec(types.SpecStateSkipped, "no kernel"), outcome.Outcome{State: outcome.Skipped, Name: name, Reason: "no kernel"}},
		{spec(types.SpecStateSkipped, ""), outcome.Outcome{State: outcome.Skipped, Name: name,
			Reason: "filtered out, or an earlier spec of its container failed"}},
	}
	for _, tt := range tests {
		t.Run(tt.spec.State.String(), func(t *testing.T) {
			if diff := cmp.Diff(tt.want, outcomeOf(tt.spec)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
