package kernel

import (
	"context"
	"fmt"

	"github.com/flanneld/flannel/core/driver"
)

// What a kernel answers although there is nothing wrong with the question:
// it is short of memory, somebody else holds a lock, or got there first. The
// op is then not done.
var (
	ErrNoBuffers = fmt.Errorf("no buffer space available: %w", driver.ErrBusy)               // ENOBUFS
	ErrBusy      = fmt.Errorf("device or resource busy: %w", driver.ErrBusy)                 // EBUSY
	ErrExists    = fmt.Errorf("somebody else is just making it: %w", driver.ErrExists)       // EEXIST
	ErrNotFound  = fmt.Errorf("what it needs is not there just now: %w", driver.ErrNotFound) // ENOENT
)

// refusals are what a host's kernel does not do at present.
type refusals struct {
	ops   error
	odds  float64
	count int // of coming ops that are refused for certain
	looks float64
}

// RefuseOps lets the kernel answer each op of a driver with an error, with the
// given probability, instead of doing it; 0 ends that.
func (h *Host) RefuseOps(err error, probability float64) {
	h.refuses.ops, h.refuses.odds, h.refuses.count = err, probability, 0
	h.world.Note(h.name+": refuses ops", fmt.Sprintf("%v, %g", err, probability))
}

// RefuseNextOps does the same to the next ops, and to no others.
func (h *Host) RefuseNextOps(err error, count int) {
	h.refuses.ops, h.refuses.odds, h.refuses.count = err, 0, count
	h.world.Note(h.name+": refuses ops", fmt.Sprintf("%v, the next %d", err, count))
}

// RefuseLooks lets reading the kernel's tables fail with the given
// probability: they changed while they were read, or there was no memory.
func (h *Host) RefuseLooks(probability float64) {
	h.refuses.looks = probability
	h.world.Note(h.name+": refuses looks", fmt.Sprint(probability))
}

// refusal is why the kernel will not do an op, or nil.
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

// readable is why the kernel's tables cannot be read, or nil.
func (h *Host) readable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p := h.refuses.looks; p > 0 && h.world.Rand(h.name+"/refusals").Float64() < p {
		return fmt.Errorf("%s: dump was interrupted: %w", h.name, driver.ErrBusy)
	}
	return nil
}
