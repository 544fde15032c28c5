package files

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// MostOwn is more than any file that this project writes holds, in bytes: many times the state of 5,000 nodes.
const MostOwn = 256 << 20

// ReadRegular returns the content of a regular file of at most so many bytes. It fails for a pipe or a device at that
// path, which another program may have put there, and does not wait for it.
func ReadRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: it is no regular file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("read %s: it has %d bytes, more than %d", path, info.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
