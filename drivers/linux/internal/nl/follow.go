package nl

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/pause"
)

// followRoom is the size of the buffer for a datagram, in bytes.
const followRoom = 64 << 10

// Follower passes on what a socket of [Listen] receives.
type Follower struct {
	Open func() (*os.File, error) // opens another socket after an error
	Each func([]byte)             // takes a datagram
	Lost func()                   // datagrams may have been lost
}

// Follow reads a socket until ctx ends, and closes it. After an error it opens another one, with growing pauses:
// without hints a change of the host waits for the next full look.
func (f Follower) Follow(ctx context.Context, file *os.File) {
	var wait pause.Backoff
	for {
		if f.read(ctx, file) {
			wait = 0
		}
		for file = nil; file == nil; {
			if !wait.Wait(ctx) {
				return
			}
			file, _ = f.Open() // the next try may succeed
		}
		f.Lost()
	}
}

// read reads a socket until it fails or ctx ends, and closes it. It reports whether anything came.
func (f Follower) read(ctx context.Context, file *os.File) (came bool) {
	stop := context.AfterFunc(ctx, func() { _ = file.Close() })
	defer file.Close()
	defer stop()
	buf := make([]byte, followRoom)
	for {
		n, err := file.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			f.Lost()
		case err != nil:
			return came
		default:
			came = true
			f.Each(buf[:n])
		}
	}
}
