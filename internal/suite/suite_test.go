package suite

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

func TestOutcome(t *testing.T) {
	spec := func(state types.SpecState, message string) ginkgo.SpecReport {
		return ginkgo.SpecReport{
			ContainerHierarchyTexts: []string{"a store"},
			LeafNodeText:            "keeps\n\ttabs",
			State:                   state,
			Failure:                 types.Failure{Message: message},
		}
	}
	const name = "a store keeps tabs"
	tests := []struct {
		spec ginkgo.SpecReport
		want Outcome
	}{
		{spec(types.SpecStatePassed, ""), Outcome{Passed, name, ""}},
		{spec(types.SpecStateFailed, "boom"), Outcome{Failed, name, ""}},
		{spec(types.SpecStatePanicked, "boom"), Outcome{Failed, name, ""}},
		{spec(types.SpecStateTimedout, "late"), Outcome{Failed, name, ""}},
		{spec(types.SpecStatePending, ""), Outcome{Skipped, name, "pending"}},
		{spec(types.SpecStateSkipped, "no\tkernel"), Outcome{Skipped, name, "no kernel"}},
		{spec(types.SpecStateSkipped, ""), Outcome{Skipped, name, "filtered out, or an earlier spec of its container failed"}},
	}
	for _, tt := range tests {
		t.Run(tt.spec.State.String(), func(t *testing.T) {
			got := outcomeOf(tt.spec)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			back, ok := Decode(keyPrefix+"0001", got.encode())
			if !ok || back != got {
				t.Errorf("decoded %+v, %v, want %+v", back, ok, got)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, kv := range [][2]string{{"other", "passed\ta\t"}, {"spec-1", "passed"}, {"spec-1", "a\tb\tc\td"}} {
		if o, ok := Decode(kv[0], kv[1]); ok {
			t.Errorf("Decode(%q, %q) = %+v, want none", kv[0], kv[1], o)
		}
	}
}
