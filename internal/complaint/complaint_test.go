package complaint_test

import (
	"testing"

	"github.com/flanneld/flannel/internal/complaint"
)

func TestOf(t *testing.T) {
	const first, later = "dial tcp 10.0.0.1:2379: port 40123: refused", "dial tcp 10.0.0.1:2379: port 9: refused"
	if complaint.Of(first) != complaint.Of(later) {
		t.Errorf("%q and %q differ", complaint.Of(first), complaint.Of(later))
	}
	if complaint.Of(first) == complaint.Of("dial tcp 10.0.0.1:2379: no route") {
		t.Error("another error is the same reason")
	}
}
