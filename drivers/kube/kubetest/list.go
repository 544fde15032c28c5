package kubetest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *Server) collection(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "true" {
		s.watch(w, r)
		return
	}
	s.list(w, r)
}

// list answers with one part of the nodes. Its token holds the beginning of the
// next part, and the revision; unlike a real server, it returns the present
// nodes.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, after := s.revision, ""
	if token := r.URL.Query().Get("continue"); token != "" {
		number, name, _ := strings.Cut(token, ":")
		revision, _ = strconv.ParseInt(number, 10, 64)
		after = name
		if revision < s.compacted {
			refuse(w, expired())
			return
		}
	}
	names := s.names()
	i, found := slices.BinarySearch(names, after)
	if found {
		i++
	}
	names = names[i:]
	l := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(revision, 10)}}
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && limit < len(names) {
		names = names[:limit]
		l.Continue = fmt.Sprintf("%d:%s", revision, names[limit-1])
	}
	for _, name := range names {
		l.Items = append(l.Items, *s.nodes[name])
	}
	answer(w, wrap("NodeList", l))
}

// added returns a node as an event of a streaming list. Like a real server,
// this one encodes an object once and not for each reader.
func (s *Server) added(name string) []byte {
	n := s.nodes[name]
	if f, known := s.spelt[name]; known && f.of == n {
		return f.frame
	}
	f := spelt{n, frame("ADDED", n)}
	s.spelt[name] = f
	return f.frame
}

type spelt struct {
	of    *corev1.Node // an event never changes; a new event takes its place
	frame []byte
}

func (s *Server) names() []string {
	names := make([]string, 0, len(s.nodes))
	for name := range s.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	initial := q.Get("sendInitialEvents") == "true"
	if seconds, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil && seconds > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
		defer cancel()
		r = r.WithContext(ctx)
	}
	metadata := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	s.mu.Lock()
	if initial && s.plain {
		s.mu.Unlock()
		const why = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch " +
			"unless the WatchList feature gate is enabled"
		refuse(w, status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why))
		return
	}
	if from > s.revision {
		s.mu.Unlock()
		refuse(w, tooLarge())
		return
	}
	epoch := s.epoch
	var frames [][]byte
	switch {
	case initial:
		from = s.revision
		for _, name := range s.names() {
			frames = append(frames, s.added(name))
		}
		frames = append(frames, frame("BOOKMARK", bookmark(from, true)))
	case from < s.compacted:
		frames = append(frames, Gone())
		epoch = -1
	}
	at := len(s.events)
	if i := slices.IndexFunc(s.events, func(e event) bool { return e.revision > from }); i >= 0 {
		at = i
	}
	s.mu.Unlock()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // wakes the loop below when the client has gone
		select {
		case <-r.Context().Done():
			s.mu.Lock()
			s.news.Broadcast()
			s.mu.Unlock()
		case <-stop:
		}
	}()
	w.Header().Set("Content-Type", protobuf+";stream=watch")
	for {
		for _, f := range frames {
			if _, err := w.Write(f); err != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		frames = s.since(r, at, epoch, metadata)
		if frames == nil {
			return
		}
		at += len(frames)
	}
}

// since waits for the events after a place; none means that the watch ends.
func (s *Server) since(r *http.Request, at, epoch int, metadata bool) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.epoch == epoch && r.Context().Err() == nil && len(s.events) <= at {
		s.news.Wait()
	}
	if s.epoch != epoch || r.Context().Err() != nil {
		return nil
	}
	var frames [][]byte
	for _, e := range s.events[at:] {
		if metadata {
			frames = append(frames, e.metadata)
		} else {
			frames = append(frames, e.whole)
		}
	}
	return frames
}
