package server

import (
	"net/http"
	"time"

	"github.com/flanneld/flannel/drivers/remote/api"
)

// writeTimeout is how long the client of a stream may take to read a line.
const writeTimeout = 30 * time.Second

// stream sends the frames of a watch until the client leaves.
func (s *Server) stream(w http.ResponseWriter, c call) error {
	if err := c.feed.catchUp(c.Context()); err != nil {
		return err
	}
	at, first, err := c.feed.join(c.terms.State)
	if err != nil {
		return err
	}
	defer c.feed.leave()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set(api.Header, api.Terms{}.String())
	control := http.NewResponseController(w)
	write := func(line []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // every connection has deadlines
		_, err := w.Write(line)
		return err == nil
	}
	beat := time.NewTicker(s.o.Heartbeat)
	defer beat.Stop()
	ok := write(first)
	for ok && control.Flush() == nil {
		select {
		case <-c.Context().Done():
			return nil
		case <-beat.C:
			ok = write(api.Frame{}.Line())
		case <-at.ready:
			for ok && at.next != nil {
				at = at.next
				ok = write(at.line)
				if at.end {
					return nil
				}
				select {
				case <-at.ready:
					continue
				default:
				}
				break
			}
		}
	}
	return nil
}
