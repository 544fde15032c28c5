package linearizable

import (
	"cmp"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// History records the requests and answers of clients. Many goroutines may use it
// at once.
type History struct {
	Now func() time.Duration // since the history began
	// ByRecord is for a store that looks for the record before it renews the TTL handle.
	// Its refusal says only that the record is gone; the handle may live on under another key.
	ByRecord bool

	mu    sync.Mutex
	count int64 // of calls and returns: their order
	ops   []porcupine.Operation
}

// Call records a request. The returned function records the answer; until then
// the outcome is unknown.
func (h *History) Call(client int, in Input) (done func(lease.Grant, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in.Called, in.ByRecord = h.Now(), h.ByRecord
	h.count++
	at := len(h.ops)
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Call: h.count, Output: Output{Unknown: true}, Return: math.MaxInt64,
	})
	return func(g lease.Grant, err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		out, known := answer(in, g, err)
		if !known {
			return
		}
		h.count++
		out.Returned = h.Now()
		h.ops[at].Output, h.ops[at].Return = out, h.count
	}
}

// Ask records a request. A move is recorded for each of its two keys, which the
// model judges one by one.
func (h *History) Ask(client int, req node.Request) (done func(lease.Grant, error)) {
	switch req.Verb {
	case node.Create:
		return h.Call(client, Input{Request: &req, Key: req.Key})
	case node.Move:
		from := h.Call(client, Input{Request: &req, Key: req.Grant.Key})
		to := h.Call(client, Input{Request: &req, Key: req.Key})
		return func(g lease.Grant, err error) {
			from(g, err)
			to(g, err)
		}
	}
	return h.Call(client, Input{Request: &req, Key: req.Grant.Key})
}

// answer reads an answer, and reports whether it reveals the outcome.
func answer(in Input, g lease.Grant, err error) (Output, bool) {
	var conflict *lease.ConflictError
	switch {
	case err == nil && (in.Request != nil && in.Request.Verb == node.Release || !g.Key.IsValid()):
		return Output{}, true
	case err == nil:
		return Output{Lease: &g.Lease}, true
	case errors.As(err, &conflict):
		elsewhere := in.Request.Verb == node.Move && conflict.Key != in.Key
		return Output{Err: lease.ErrConflict, Revision: conflict.Revision, Elsewhere: elsewhere}, true
	case errors.Is(err, lease.ErrLost):
		return Output{Err: lease.ErrLost}, true
	}
	return Output{}, false
}

// Unknown counts the requests without an outcome.
func (h *History) Unknown() (n int) {
	for _, op := range h.ops {
		if op.Output.(Output).Unknown {
			n++
		}
	}
	return n
}

// Len counts the requests.
func (h *History) Len() int { return len(h.ops) }

// Check searches for an order that explains all answers. If there is none, it
// returns the requests for the first key without one, one a line, in the order of
// their calls, and marks those that the longest order explains.
func (h *History) Check(within time.Duration) (porcupine.CheckResult, string) {
	model := Model()
	for _, part := range byKey(h.ops) {
		if porcupine.CheckOperationsTimeout(model, relevant(part), within) == porcupine.Ok {
			continue
		}
		if result, info := porcupine.CheckOperationsVerbose(model, part, within); result != porcupine.Ok {
			return result, explain(part, info.PartialLinearizations()[0])
		}
	}
	return porcupine.Ok, ""
}

// relevant leaves out the requests with an unknown outcome whose effect no client saw.
// If the rest has an order, the whole has one too, with those requests at the end.
// Only if the rest has none does the search have to try their possible effects.
func relevant(part []porcupine.Operation) []porcupine.Operation {
	seen := map[netip.Addr]bool{}
	for _, op := range part {
		if l := op.Output.(Output).Lease; l != nil {
			seen[l.Attrs.PublicIP] = true
		}
		if req := op.Input.(Input).Request; req != nil {
			seen[req.Grant.Attrs.PublicIP] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(part), func(op porcupine.Operation) bool {
		if !op.Output.(Output).Unknown {
			return false
		}
		req := op.Input.(Input).Request
		return req.Verb == node.Renew || req.Verb != node.Release && !seen[req.Attrs.PublicIP]
	})
}

func explain(part []porcupine.Operation, orders [][]int) string {
	explained := map[int]bool{}
	if len(orders) > 0 {
		longest := slices.MaxFunc(orders, func(a, b []int) int { return cmp.Compare(len(a), len(b)) })
		for _, i := range longest {
			explained[i] = true
		}
	}
	var b strings.Builder
	for i, op := range part {
		mark := "! "
		if explained[i] {
			mark = "  "
		}
		b.WriteString(mark + describe(op.Input.(Input), op.Output.(Output)) + "\n")
	}
	return b.String()
}
