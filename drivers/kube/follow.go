package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/internal/pause"
)

// run keeps the store's view following the cluster until the store is closed. A
// server ends each watch in order after some minutes, to spread its load. Only
// after such an end does run begin the next watch at once.
func (s *Store) run() {
	var d delay
	for s.ctx.Err() == nil {
		followed, err := s.attempt()
		lived := followed >= s.o.steady
		if lived {
			d = 0
		}
		switch {
		case s.ctx.Err() != nil:
			s.lost(errClosed)
		case err != nil:
			s.lost(err)
			pause.For(s.ctx, d.next(mostDelay)+retryAfter(err))
		case !lived:
			if d > 0 { // a single early end is a restarted server, not an outage
				s.lost(errEnded)
			}
			pause.For(s.ctx, d.next(mostDelay))
		}
	}
}

// errEnded is the end of a watch that the server ended too early, but in order.
var errEnded = errors.New("watch nodes: the API server ended the watch soon after its beginning")

// mostRetryAfter bounds the delay that a server may ask for.
const mostRetryAfter = time.Minute

// retryAfter returns the delay that the server asks for in the Retry-After of
// its answer.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, mostRetryAfter)
}

// lost records the reason why the view no longer follows the cluster. It logs
// the beginning of an outage and each new reason, not every attempt.
func (s *Store) lost(err error) {
	why := complaint.Of(err.Error())
	s.update(func() bool {
		news := s.synced || s.err == nil || complaint.Of(s.err.Error()) != why
		s.synced, s.err = false, err
		return news
	})
	if s.ctx.Err() != nil {
		return
	}
	if gone(err) { // the normal case after a while without a connection
		s.o.Log.Info("reading all nodes again", "because", err)
		return
	}
	if s.told.IsNew(err.Error()) {
		s.o.Log.Warn("not following the API server", "err", err)
	}
}

// follows records that the view follows the cluster.
func (s *Store) follows() {
	if s.told.Any() {
		s.told.Forget()
		s.o.Log.Info("following the API server again")
	}
	s.update(func() bool {
		news := !s.synced
		s.synced, s.err = true, nil
		return news
	})
}

// attempt reads the missing state and follows the changes until that fails, or
// until the server ends the watch in order: then err is nil. It returns for how
// long the view followed the cluster.
func (s *Store) attempt() (followed time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.again = cancel
	s.mu.Unlock()
	followed, err = s.followNodes(ctx)
	if errors.Is(context.Cause(ctx), errOtherConfig) {
		s.at = 0
		return s.o.steady, nil
	}
	return followed, err
}

// followNodes makes one attempt, until ctx ends.
func (s *Store) followNodes(ctx context.Context) (followed time.Duration, err error) {
	if err := s.findNode(ctx); err != nil {
		return 0, err
	}
	if s.alone() {
		return s.poll(ctx)
	}
	if s.at == 0 {
		if err := s.read(ctx); err != nil {
			return 0, err
		}
	}
	for {
		lasted, err := s.watch(ctx)
		followed += lasted
		if !errors.Is(err, errPartial) {
			return followed, err
		}
	}
}

// read reads all nodes.
func (s *Store) read(ctx context.Context) error {
	if !s.chunked {
		err := s.stream(ctx)
		if !noStreaming(err) {
			return err
		}
		s.chunked = true
	}
	if err := s.list(ctx); err != nil {
		return fmt.Errorf("list nodes: %w", explain(err, "list nodes"))
	}
	return nil
}

// stream reads all nodes in a streaming list.
func (s *Store) stream(ctx context.Context) error {
	listing := s.begin()
	st, err := s.api.stream(ctx)
	if err == nil {
		defer st.Close()
		err = s.initial(st, listing)
	}
	return unwatched(err)
}

// manyNodes is the size of a cluster in which some event comes every second: each kubelet writes its status every five
// minutes at least.
const manyNodes = 1000

func (s *Store) many() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Len() >= manyNodes
}

// watch opens a watch at the view's revision and follows it.
func (s *Store) watch(ctx context.Context) (followed time.Duration, err error) {
	st, err := s.api.watch(ctx, s.at, s.whole, s.many())
	if err == nil {
		defer st.Close()
		followed, err = s.follow(ctx, st)
	}
	switch {
	case gone(err):
		s.at = 0
	case err == nil: // after some minutes
		s.whole = false
	case ctx.Err() != nil:
		err = ctx.Err()
	case !s.whole && (apierrors.IsNotAcceptable(err) || errors.Is(err, errPartial)):
		s.whole = true
		s.o.Log.Info("watching whole node objects for some minutes", "because", err)
		return followed, errPartial
	}
	return followed, unwatched(err)
}

// unwatched returns the error of a watch as it is told.
func unwatched(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("watch nodes: %w", explain(err, "list and watch nodes"))
}

// begin starts a complete reading. The table may change at the same time
// through our own requests.
func (s *Store) begin() *nodelease.Listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.List()
}

// findNode finds the name of our node. Only a pod has to ask the API server for it.
func (s *Store) findNode(ctx context.Context) error {
	if s.table != nil {
		return nil
	}
	name := s.o.Node
	if name == "" {
		ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
		defer cancel()
		var err error
		name, err = s.api.nodeOfPod(ctx, s.o.PodNamespace, s.o.PodName)
		if err == nil && name == "" {
			err = errors.New("it is not on a node yet")
		}
		if err != nil {
			return fmt.Errorf("get pod %s/%s, to learn the name of our node: %w",
				s.o.PodNamespace, s.o.PodName, explain(err, "get pods"))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.node, s.table = name, nodelease.NewTable(name, s.doc, s.network)
	return nil
}

// list reads all nodes in parts. The parts are one reading: the server returns
// them all at the revision of the first, or refuses.
func (s *Store) list(ctx context.Context) error {
	listing := s.begin()
	for token := ""; ; {
		p, err := s.part(ctx, listing, token)
		if err != nil {
			return err
		}
		token = p.next
		if token == "" {
			s.end(listing, p.revision)
			return nil
		}
	}
}

// partTime bounds the reading of one part.
const partTime = time.Minute

func (s *Store) part(ctx context.Context, listing *nodelease.Listing, token string) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	return s.api.list(ctx, token, func(it item) { s.add(listing, it) })
}

func (s *Store) add(listing *nodelease.Listing, it item) {
	s.update(func() bool {
		s.saw(it, true)
		listing.Add(s.known(it), it.revision)
		return false
	})
}

func (s *Store) end(listing *nodelease.Listing, revision int64) {
	s.at = revision
	s.update(func() bool {
		news := listing.End(revision)
		if _, seen := s.table.Node(s.node); seen == 0 {
			s.own = standing{}
		}
		return news
	})
}

// follow applies the events of a watch until it ends, and returns how long it
// did.
func (s *Store) follow(ctx context.Context, st stream) (followed time.Duration, err error) {
	s.follows()
	began := time.Now()
	for {
		kind, it, err := st.next()
		if errors.Is(err, io.EOF) {
			return time.Since(began), nil
		}
		if err == nil {
			err = s.event(ctx, kind, it)
		}
		if err != nil {
			return time.Since(began), err
		}
		s.at = max(s.at, it.revision)
	}
}

// event takes in an event of a watch.
func (s *Store) event(ctx context.Context, kind string, it item) error {
	switch kind {
	case "ADDED", "MODIFIED":
		if it.partial {
			return s.takePartial(ctx, it)
		}
		s.take(it)
	case "DELETED":
		s.remove(it)
	} // or a bookmark, which has a revision and nothing else
	return nil
}

// initial reads the nodes with which a streaming list begins.
func (s *Store) initial(st stream, listing *nodelease.Listing) error {
	// A server that does not know this request never marks the end of the list.
	late := time.AfterFunc(partTime, func() { _ = st.Close() })
	defer late.Stop()
	for {
		kind, it, err := st.next()
		switch {
		case err != nil && (!late.Stop() || errors.Is(err, io.EOF)):
			return errUnfinished
		case err != nil:
			return err
		case kind == "BOOKMARK" && it.complete:
			s.end(listing, it.revision)
			return nil
		case kind == "ADDED" || kind == "MODIFIED":
			s.add(listing, it)
		}
	}
}

// errUnfinished is a streaming list that ended too early.
var errUnfinished = errors.New("the list of nodes broke off")

// pollEvery is the interval at which a node reads its own node object if no other
// node matters.
const pollEvery = 30 * time.Second

// poll reads our own node at intervals, for a backend without peers (interop 5.1:
// alloc). It returns for how long that has worked.
func (s *Store) poll(ctx context.Context) (followed time.Duration, err error) {
	var began time.Time // of the first success
	for {
		it, err := s.getOwn(ctx)
		if err != nil && !apierrors.IsNotFound(err) {
			err = fmt.Errorf("get node %s: %w", s.node, explain(err, "get nodes"))
			if !began.IsZero() {
				followed = time.Since(began)
			}
			return followed, err
		}
		listing := s.begin()
		if err == nil {
			s.add(listing, it)
		}
		s.end(listing, max(it.revision, s.at, 1))
		s.follows()
		if began.IsZero() {
			began = time.Now()
		}
		if !pause.For(ctx, pollEvery) {
			return time.Since(began), ctx.Err()
		}
	}
}

func (s *Store) getOwn(ctx context.Context) (item, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return s.api.get(ctx, s.node, 0)
}

// gone reports whether the server no longer has, or never had, the requested
// revision.
func gone(err error) bool {
	var w *watchError
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || // it was restored from a backup
		apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || errors.As(err, &w) && w.code == http.StatusGone
}

// noStreaming reports whether the server lacks streaming lists: older ones
// refuse the parameters, or ignore them.
func noStreaming(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || errors.Is(err, errUnfinished)
}

// explain adds a remedy to an error that lacks one.
func explain(err error, right string) error {
	if request := new(url.Error); errors.As(err, &request) {
		err = request.Err // without the URL, which adds nothing
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; the ClusterRole of flannel's service account has to allow: %s", err, right)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; the token or the certificate is not good at this API server", err)
	}
	return err
}
