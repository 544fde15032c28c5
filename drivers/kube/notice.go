package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/flanneld/flannel/internal/pause"
)

// Notice is a condition of the node that an operator of the cluster must know. It becomes
// an event of the node object, which kubectl describe node shows.
type Notice struct {
	Reason  string // one word, such as LeaseLost
	Message string
	Warning bool
}

// The limits of one node's events. In a failure of the whole cluster, each of thousands
// of nodes writes some. Events live for an hour, so an equal notice within that time
// increments the count of the existing event.
const (
	noticesAtOnce  = 10
	noticeInterval = 5 * time.Minute // beyond those at once
	eventLife      = time.Hour
)

// noticeGrace is the longest time for which notices delay Close: the reason why a daemon
// exits is often the most important notice.
const noticeGrace = 2 * time.Second

// noticesWaiting is the number of notices that may wait for the API server. The store
// drops further ones: the node's log has them.
const noticesWaiting = 16

// eventNamespace holds the events of objects without a namespace.
const eventNamespace = "default"

// mostMessage is the length in bytes to which messages are cut: the limit of the API
// server for events of its newer version.
const mostMessage = 1024

// Notify publishes a notice. It does not wait.
func (s *Store) Notify(n Notice) {
	select {
	case s.notices <- n:
	default:
		s.o.Log.Warn("too many events wait for the API server; one is dropped", "reason", n.Reason)
	}
}

// publisher writes notices as events. It belongs to one goroutine.
type publisher struct {
	*Store
	limit   flowcontrol.PassiveRateLimiter
	told    map[Notice]told
	refused bool // the API server does not let us write events, and the log says so
}

// told is the event of a notice.
type told struct {
	name  string
	count int
	first time.Time
}

// flushNotices waits until the notices so far are published, but not longer than
// noticeGrace. Later notices are not published.
func (s *Store) flushNotices() {
	s.endNotices()
	select {
	case <-s.published:
	case <-time.After(noticeGrace):
	}
}

func (s *Store) publishNotices() {
	defer close(s.published)
	p := &publisher{
		Store: s, told: map[Notice]told{},
		limit: flowcontrol.NewTokenBucketPassiveRateLimiter(float32(1/noticeInterval.Seconds()), noticesAtOnce),
	}
	for {
		select {
		case n := <-s.notices:
			p.publish(n)
		case <-s.ending.Done():
			p.publishRest()
			return
		}
	}
}

// publishRest publishes the notices that wait.
func (p *publisher) publishRest() {
	for {
		select {
		case n := <-p.notices:
			p.publish(n)
		default:
			return
		}
	}
}

// publish writes the event of a notice. It tries until the API server has answered.
func (p *publisher) publish(n Notice) {
	if !p.limit.TryAccept() {
		return // the log has it
	}
	now := time.Now()
	maps.DeleteFunc(p.told, func(_ Notice, t told) bool { return now.Sub(t.first) >= eventLife })
	var d delay
	for p.ctx.Err() == nil {
		err := p.write(n, now)
		switch {
		case err == nil:
			p.refused = false
			return
		case apierrors.IsNotFound(err) && p.told[n].count > 0:
			delete(p.told, n) // it has expired: write a new one
			continue
		case permanent(err):
			p.refuse(n, err)
			return
		}
		pause.For(p.ctx, d.next(mostDelay)+retryAfter(err))
	}
}

// permanent reports whether another attempt would fail in the same way.
func permanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err)
}

// refuse logs once that the API server refuses our events. Nothing else depends on them.
func (p *publisher) refuse(n Notice, err error) {
	if !p.refused {
		p.o.Log.Warn("an event of the node could not be written; this and further ones are in this log alone",
			"reason", n.Reason, "err", explain(err, "create and patch events"))
	}
	p.refused = true
}

// write creates the event of a notice, or increments the count of the existing one.
func (p *publisher) write(n Notice, now time.Time) error {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.Timeout)
	defer cancel()
	t, repeated := p.told[n]
	t.count++
	if repeated {
		change, err := json.Marshal(eventPatch{Count: t.count, LastTimestamp: timestamp(now)})
		if err != nil {
			return err
		}
		err = p.api.patchEvent(ctx, eventNamespace, t.name, change)
		if err == nil {
			p.told[n] = t
		}
		return err
	}
	node, uid := p.object()
	if node == "" {
		return errNotYet
	}
	t.first, t.name = now, fmt.Sprintf("%s.%x", node, now.UnixNano())
	body, err := json.Marshal(newEvent(n, t.name, node, uid, now))
	if err != nil {
		return err
	}
	err = p.api.createEvent(ctx, eventNamespace, body)
	if apierrors.IsAlreadyExists(err) { // an earlier attempt has worked, but its answer was lost
		err = nil
	}
	if err == nil {
		p.told[n] = t
	}
	return err
}

// object returns the name and the UID of our node object. If the UID is unknown, the name
// takes its place: kubectl searches for that, too.
func (p *publisher) object() (node, uid string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node, cmp.Or(p.own.uid, p.node)
}

// nodeEvent holds the fields of an event of version v1 that the store writes, in JSON.
type nodeEvent struct {
	APIVersion         string          `json:"apiVersion"`
	Kind               string          `json:"kind"`
	Metadata           eventName       `json:"metadata"`
	InvolvedObject     objectReference `json:"involvedObject"`
	Reason             string          `json:"reason"`
	Message            string          `json:"message"`
	Type               string          `json:"type"`
	Source             eventSource     `json:"source"`
	FirstTimestamp     string          `json:"firstTimestamp"`
	LastTimestamp      string          `json:"lastTimestamp"`
	Count              int             `json:"count"`
	ReportingComponent string          `json:"reportingComponent"`
	ReportingInstance  string          `json:"reportingInstance"`
}

type eventName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

type objectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

type eventSource struct {
	Component string `json:"component"`
	Host      string `json:"host"`
}

// eventPatch changes the count of an event.
type eventPatch struct {
	Count         int    `json:"count"`
	LastTimestamp string `json:"lastTimestamp"`
}

// component is the name under which flannel writes events.
const component = "flanneld"

func newEvent(n Notice, name, node, uid string, now time.Time) nodeEvent {
	kind := "Normal"
	if n.Warning {
		kind = "Warning"
	}
	return nodeEvent{
		APIVersion: "v1", Kind: "Event", Metadata: eventName{name, eventNamespace},
		InvolvedObject: objectReference{"v1", "Node", node, uid},
		Reason:         n.Reason, Message: cut(n.Message, mostMessage), Type: kind,
		Source:         eventSource{component, node},
		FirstTimestamp: timestamp(now), LastTimestamp: timestamp(now), Count: 1,
		ReportingComponent: component, ReportingInstance: node,
	}
}

// cut shortens a text to a number of bytes, and shows that it did.
func cut(text string, most int) string {
	const mark = "..."
	if len(text) <= most {
		return text
	}
	return text[:most-len(mark)] + mark
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
