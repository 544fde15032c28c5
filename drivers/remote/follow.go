package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/internal/pause"
)

// steady is how long a stream has to live for the next wait to be short again.
const steady = 10 * time.Second

// maxLine bounds a line of a stream, in bytes: 100,000 leases fit.
const maxLine = 64 << 20

// maxText bounds the text of an error that a server sends, in bytes.
const maxText = 1 << 10

var (
	errSilent = errors.New("the server is silent")
	errEnded  = errors.New("the server ended the watch")
	errLong   = fmt.Errorf("a line of the watch is longer than %d bytes", maxLine)
)

// run keeps the store's view following a server until the store is closed.
func (s *Store) run() {
	var d pause.Backoff
	for tried := 1; s.ctx.Err() == nil; tried++ {
		at, _ := s.server()
		followed, err := s.attempt(s.bases[at])
		if s.ctx.Err() != nil {
			err = errClosed
		}
		s.lost(at, err)
		if followed >= steady {
			d, tried = 0, 1
		}
		// The store tries the other servers at once, and waits only after each round.
		if tried%len(s.bases) == 0 {
			d.Wait(s.ctx)
		}
	}
}

// lost records the reason why the view no longer follows a server, and turns to
// the next one. It logs the beginning of an outage and each new reason, not
// every attempt.
func (s *Store) lost(at int, err error) {
	err = fmt.Errorf("server %s: %w", s.bases[at], err)
	s.client.CloseIdleConnections() // they are likely dead, too
	s.update(func() {
		s.synced, s.err = false, err
		s.current = (at + 1) % len(s.bases)
	})
	if s.ctx.Err() == nil && s.told.IsNew(err.Error()) {
		s.o.Log.Warn("not following the server", "err", err)
	}
}

// follows records that the view follows a server.
func (s *Store) follows(base string) {
	s.told.Forget()
	s.update(func() { s.synced, s.err = true, nil })
	s.o.Log.Info("following the server", "url", base)
}

// attempt watches at one server until that fails. It returns for how long the
// view followed the server.
func (s *Store) attempt(base string) (followed time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	alive := time.AfterFunc(s.o.Timeout, func() { cancel(errSilent) })
	defer alive.Stop()
	s.conns.Cut()

	terms := api.Terms{}
	if t := s.present(); t != nil {
		terms.State = t.state
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/leases", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set(api.Header, terms.String())
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, cause(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(textOf(resp))
	}
	old := resp.Header.Get(api.Header) == ""
	s.update(func() { s.old = old })
	var began time.Time
	follow := func() {
		if began.IsZero() {
			began = time.Now()
			s.follows(base)
		}
	}
	body := living{resp.Body, func() { alive.Reset(s.o.Heartbeat + s.o.Timeout) }}
	if old {
		alive.Stop()
		err = s.followOld(ctx, base, body, follow)
	} else {
		err = s.stream(body, follow)
	}
	if !began.IsZero() {
		followed = time.Since(began)
	}
	return followed, cause(ctx, err)
}

// cause returns the reason why ctx ended, if it has, and otherwise err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// living is a body that calls alive after each read that returned bytes.
type living struct {
	io.Reader
	alive func()
}

func (l living) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.alive()
	}
	return n, err
}

// stream reads the lines of a watch until it ends. It calls follow once the
// view agrees with the server's.
func (s *Store) stream(body io.Reader, follow func()) error {
	lines := bufio.NewReader(body)
	for {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		f, err := api.ParseFrame(line)
		switch {
		case err != nil:
			return err
		case f.Error != "":
			return errors.New(f.Error)
		case f.State != "":
			if err := s.take(f); err != nil {
				return err
			}
		}
		if s.present() == nil {
			return errNoBase
		}
		follow() // a line without a state says that the server has the same one
	}
}

// take applies a frame to the view.
func (s *Store) take(f api.Frame) error {
	before := s.present() // run alone changes it
	next, err := before.after(f)
	if err != nil {
		return err
	}
	s.update(func() { s.table = next })
	if before == nil {
		return nil
	}
	switch was, is := before.snapshot, next.snapshot; {
	case was.History != is.History:
		s.o.Log.Warn("the datastore is another cluster", "was", was.History, "is", is.History)
	case is.Revision < was.Revision && f.Whole:
		s.o.Log.Info("the server is behind, or the datastore was restored", "from", was.Revision, "to", is.Revision)
	}
	return nil
}

// readLine reads up to a newline, and maxLine bytes at most.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, errLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// textOf returns the server's explanation of a refused request.
func textOf(resp *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
	return fmt.Sprintf("%s: %q", resp.Status, strings.TrimSpace(string(text)))
}
