package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os/exec"
	"syscall"
	"time"

	"github.com/flanneld/flannel/harness/vm/wire"
)

// MeasureArg and IdleArg are arguments of the guest's program: with the first it
// calls [Measure], with the second it does nothing.
const (
	MeasureArg = "measure"
	IdleArg    = "idle"
)

// Sample holds the times that two pieces of work take on a machine.
type Sample struct {
	Compute time.Duration // hash bytes, encode and decode text
	Spawn   time.Duration // start a program that does nothing, several times
}

// The size of the work: some hundredths of a second on a host, a second in a machine.
const (
	rounds     = 3 // the fastest counts, so that other work on the host matters less
	hashBytes  = 1 << 20
	jsonValues = 1 << 12
	spawns     = 5
)

// Measure takes a sample of the machine on which it runs, in time that passes there. Program
// is started as "program idle".
func Measure(program string) (Sample, error) {
	began := time.Now()
	return measureBy(func() time.Duration { return time.Since(began) }, program)
}

// measureBy is Measure with another clock.
func measureBy(clock func() time.Duration, program string) (Sample, error) {
	var best Sample
	for range rounds {
		started := clock()
		if err := compute(); err != nil {
			return best, err
		}
		computed := clock()
		for range spawns {
			if err := exec.Command(program, IdleArg).Run(); err != nil {
				return best, fmt.Errorf("start a program to measure this machine: %w", err)
			}
		}
		best.Compute = least(best.Compute, computed-started)
		best.Spawn = least(best.Spawn, clock()-computed)
	}
	return best, nil
}

// processorTime returns the time for which processors have run this process and its children
// that have ended.
func processorTime() time.Duration {
	var used time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		_ = syscall.Getrusage(who, &r) // never fails for these
		used += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return used
}

// least returns the smaller of two times; 0 is no time yet.
func least(best, other time.Duration) time.Duration {
	if best == 0 {
		return other
	}
	return min(best, other)
}

func compute() error {
	sum := fnv.New64a()
	_, _ = sum.Write(make([]byte, hashBytes)) // never fails
	values := make([]uint64, jsonValues)
	for i := range values {
		values[i] = sum.Sum64() >> (i % 64)
	}
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &values)
}

// Slowness measures how many times slower than the host the machine is: the greater
// of two ratios, and at least 1. On the host it counts processor time: other work there makes
// the machine slower, and would make the host seem as slow. Program is the guest's program,
// under a path that the guest shares with the host.
func (m *Machine) Slowness(ctx context.Context, program string) (float64, error) {
	here, err := measureBy(processorTime, program)
	if err != nil {
		return 0, err
	}
	if here.Compute <= 0 || here.Spawn <= 0 {
		return 0, fmt.Errorf("measure the host: its processor time is too coarse: %+v", here)
	}
	var out, said bytes.Buffer
	status, err := m.Run(ctx, wire.Command{Args: []string{program, MeasureArg}}, &out, &said)
	if err != nil {
		return 0, fmt.Errorf("measure the machine: %w", err)
	}
	if status != 0 {
		return 0, fmt.Errorf("measure the machine: status %d: %s", status, said.Bytes())
	}
	var there Sample
	if err := json.Unmarshal(out.Bytes(), &there); err != nil {
		return 0, fmt.Errorf("measure the machine: %w", err)
	}
	return max(1, ratio(there.Compute, here.Compute), ratio(there.Spawn, here.Spawn)), nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
