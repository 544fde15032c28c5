package server

import (
	"net/http"
	"time"

	"github.com/flanneld/flannel/drivers/remote/api"
)

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
	over := connIn(c.Context())
	w.Header().Set("Content-Type", contentType)
	w.Header().Set(api.Header, api.Terms{}.String())
	control := http.NewResponseController(w)
	write := func(line []byte) bool {
		_, err := w.Write(line)
		return err == nil
	}
	beat := time.NewTicker(s.o.Heartbeat)
	defer beat.Stop()
	s.lists.begin(first, over)
	ok := write(first.bytes) && control.Flush() == nil
	s.lists.end(first, over)
	for ok {
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
		ok = ok && control.Flush() == nil
	}
	return nil
}
