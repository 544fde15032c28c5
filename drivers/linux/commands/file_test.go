package commands

import (
	"strings"
	"testing"
)

// TestRecordWithFragments reads a record that a full disk has damaged: each whole entry counts, also one that is
// glued to a fragment, and the error names the damaged lines without their texts.
func TestRecordWithFragments(t *testing.T) {
	const text = "boot b1\n" +
		`keep command peer 10.5.1.0/24 run "one" limit 30s` + "\n" +
		`keep command peer 10.5.2.0/24 run "two" limit 30s` + "\n" +
		`keep command peer 10.5.3.0/24 run "s3ckeep command peer 10.5.4.0/24 run "four" limit 30s` + "\n" +
		`keep command peer 10.5.5.0/24 run "s3cret` + "\n" +
		`keep comforget peer 10.5.2.0/24` + "\n\n" +
		`keep command peer 10.5.6.0/24 run "six" limit 30s` + "\n" +
		`keep command peer 10.5.7.0/24 run "sev`
	kept, boot, err := parse([]byte(text))
	var texts []string
	for _, c := range kept.Commands.All {
		texts = append(texts, c.Text)
	}
	if got := strings.Join(texts, " "); got != "one four six" || boot != "b1" {
		t.Errorf("commands %q of boot %q", got, boot)
	}
	if err == nil || err.Error() != "cannot read line 5" {
		t.Errorf("error %v", err)
	}
}
