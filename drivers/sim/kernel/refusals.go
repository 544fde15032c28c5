package kernel

import (
	"context"
	"fmt"

	"github.com/flanneld/flannel/core/driver"
)

// Errors of a kernel that refuses a valid op, because it is short of memory, or
// another program holds a lock or was first. The kernel then changes nothing.
var (
	ErrNoBuffers = fmt.Errorf("no buffer space available: %w", driver.ErrBusy)               // ENOBUFS
	ErrBusy      = fmt.Errorf("device or resource busy: %w", driver.ErrBusy)                 // EBUSY
	ErrExists    = fmt.Errorf("another program is just making it: %w", driver.ErrExists)     // EEXIST
	ErrNotFound  = fmt.Errorf("a needed object is missing just now: %w", driver.ErrNotFound) // ENOENT
)

// refusals are the ops and looks that a host's kernel refuses at present.
type refusals struct {
	ops   error
	odds  float64
	count int // of coming ops that are certainly refused
	looks float64
}

// RefuseOps makes the kernel answer each op of a driver with an error, with the
// given probability, instead of doing it; 0 ends that.
func (h *Host) RefuseOps(err error, probability float64) {
	h.refuses.set(err, probability, 0)
	h.world.Note(h.name+": refuses ops", fmt.Sprintf("%v, %g", err, probability))
}

// RefuseNextOps does the same to the next count ops, and to no others.
func (h *Host) RefuseNextOps(err error, count int) {
	h.refuses.set(err, 0, count)
	h.world.Note(h.name+": refuses ops", fmt.Sprintf("%v, the next %d", err, count))
}

func (r *refusals) set(err error, odds float64, count int) {
	r.ops = err
	r.odds = odds
	r.count = count
}

// RefuseLooks makes each look at the kernel's tables fail with the given
// probability: they changed during the dump, or memory was short.
func (h *Host) RefuseLooks(probability float64) {
	h.refuses.looks = probability
	h.world.Note(h.name+": refuses looks", fmt.Sprint(probability))
}

// Refusing reports whether the kernel refuses valid ops or looks at present.
func (h *Host) Refusing() bool {
	r := &h.refuses
	return r.count > 0 || r.odds > 0 || r.looks > 0
}

// refusal returns the error with which the kernel refuses an op, or nil.
func (h *Host) refusal() error {
	r := &h.refuses
	if r.count > 0 {
		r.count--
		return r.ops
	}
	if r.odds > 0 && h.world.Rand(h.name+"/refusals").Float64() < r.odds {
		return r.ops
	}
	return nil
}

// readable returns the error with which the kernel refuses a look, or nil.
func (h *Host) readable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p := h.refuses.looks; p > 0 && h.world.Rand(h.name+"/refusals").Float64() < p {
		return fmt.Errorf("%s: dump was interrupted: %w", h.name, driver.ErrBusy)
	}
	return nil
}
