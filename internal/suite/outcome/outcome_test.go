package outcome_test

import (
	"testing"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	spoken := outcome.Outcome{State: outcome.Skipped, Name: "a store\nkeeps\ttabs", Reason: "no\n\n kernel"}
	want := outcome.Outcome{State: outcome.Skipped, Name: "a store keeps tabs", Reason: "no kernel"}
	got, ok := outcome.Decode(outcome.KeyPrefix+"0001", spoken.Encode())
	if !ok || got != want {
		t.Errorf("decoded %+v, %v, want %+v", got, ok, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, kv := range [][2]string{{"other", "passed\ta"}, {"spec-1", "passed"}, {"spec-1", ""}} {
		if o, ok := outcome.Decode(kv[0], kv[1]); ok {
			t.Errorf("Decode(%q, %q) = %+v, want none", kv[0], kv[1], o)
		}
	}
}
