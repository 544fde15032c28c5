package embedded

import (
	"context"
	"testing"
)

func TestDirectoryIsForOne(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	first, err := Start(ctx, Options{Dir: dir, UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "embedded etcd: " + dir + " is in use by another server"
	if _, err := Start(ctx, Options{Dir: dir, UnsafeNoSync: true}); err == nil || err.Error() != want {
		t.Errorf("a second server: %v, want %s", err, want)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Start(ctx, Options{Dir: dir, UnsafeNoSync: true})
	if err != nil {
		t.Fatalf("after the end of the first: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
