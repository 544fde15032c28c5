package nl

import (
	"context"
	"errors"
	"os"
	"testing"
)

// TestFollowOpensAnotherSocket ends the first socket, refuses the second, and sends by the third.
func TestFollowOpensAnotherSocket(t *testing.T) {
	ended, first, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // each Read fails with io.EOF
	tries := 0
	came, done := make(chan string), make(chan struct{})
	f := Follower{
		Open: func() (*os.File, error) {
			tries++
			if tries == 1 {
				return nil, errors.New("no memory")
			}
			r, w, err := os.Pipe()
			if err != nil {
				return nil, err
			}
			_, err = w.WriteString("hint")
			return r, errors.Join(err, w.Close())
		},
		Each: func(b []byte) { came <- string(b) },
		Lost: func() { came <- "lost" },
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { f.Follow(ctx, ended); close(done) }()
	for _, want := range []string{"lost", "hint", "lost", "hint"} {
		if got := <-came; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	cancel()
	for {
		select {
		case <-came: // of a socket that was just opened
		case <-done:
			return
		}
	}
}
