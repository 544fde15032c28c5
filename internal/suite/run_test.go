package suite_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gotest.tools/gotestsum/testjson"

	"github.com/flanneld/flannel/internal/suite"
	"github.com/flanneld/flannel/internal/suite/outcome"
)

// sampleEnv marks the run that [TestRun] observes.
const sampleEnv = "FLANNEL_SUITE_SAMPLE"

// The sample fails on purpose, so it exists only in the observed run.
var _ = Describe("a sample", Ordered, ContinueOnFailure, func() {
	if os.Getenv(sampleEnv) == "" {
		return
	}
	It("is skipped", func() { Skip("there is\nno kernel") })
	PIt("is pending", func() {})
	It("fails", func() { Expect(1).To(Equal(2)) })
	// The last one leaves a dot without an end of line in the output, which must not matter.
	It("passes", func() { Expect(1).To(Equal(1)) })
})

func TestSample(t *testing.T) {
	if os.Getenv(sampleEnv) == "" {
		return // only TestRun runs it
	}
	suite.Run(t, "sample")
}

// TestRun runs the sample in this test binary, and reads its output as hack/testsum
// does.
func TestRun(t *testing.T) {
	cmd := exec.Command("go", "tool", "test2json", "-p", "suite",
		os.Args[0], "-test.v=test2json", "-test.run=^TestSample$")
	cmd.Env = append(os.Environ(), sampleEnv+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: stdout})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a failed spec did not fail the run")
	}

	got := map[outcome.Outcome]bool{}
	for _, test := range execution.Failed() {
		for key, value := range test.Attributes {
			o, ok := outcome.Decode(key, value)
			if !ok {
				t.Errorf("attribute %s=%q is no outcome", key, value)
			}
			got[o] = true
		}
	}
	want := map[outcome.Outcome]bool{
		{State: outcome.Passed, Name: "a sample passes"}:                                    true,
		{State: outcome.Skipped, Name: "a sample is skipped", Reason: "there is no kernel"}: true,
		{State: outcome.Skipped, Name: "a sample is pending", Reason: "pending"}:            true,
		{State: outcome.Failed, Name: "a sample fails"}:                                     true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
