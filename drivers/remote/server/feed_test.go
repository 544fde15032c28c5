package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// TestFramesTellHowAConfigHasGone deletes a config that a client knows: only with how and when it has gone does a node
// remove what it has made.
func TestFramesTellHowAConfigHasGone(t *testing.T) {
	before := &lease.Snapshot{Revision: 4, Config: lease.Document{Data: []byte("{}"), Revision: 3}}
	now := &lease.Snapshot{Revision: 5, Config: lease.Document{AbsentAt: 5, Deleted: true}}
	want := &api.Document{AbsentAt: 5, Deleted: true}
	var change, all api.Frame
	changes(&change, before, now)
	whole(&all, now)
	for name, got := range map[string]*api.Document{"change": change.Config, "whole": all.Config} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	var later api.Frame
	changes(&later, &lease.Snapshot{Config: lease.Document{AbsentAt: 5}}, now)
	if later.Config == nil {
		t.Error("a config that was absent, and then turns out to be deleted, is not told")
	}
}
