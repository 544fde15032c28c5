package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

const (
	logLimit  = time.Second // for which the process waits for a line to be read
	mostLines = 1000        // lines of the log that wait
)

// logTo makes klog write to standard error, which its reader may leave full. The signal SIGPIPE, by which Go ends a
// process whose standard error has no reader any more, is ignored; programs that the process starts get it as usual.
func logTo(w io.Writer) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog has these flags
		}
	}
	klog.SetOutput(newPatientLog(w, logLimit))
}

// patientLog writes to a pipe or a terminal that another program may not read. A line waits for its reader for a time.
// While a line waits longer, the next ones are queued, and beyond a number are lost, which the log says later.
type patientLog struct {
	limit time.Duration
	lines chan logLine

	mu      sync.Mutex
	waiting atomic.Int64 // lines that are not written
	lost    atomic.Int64
}

// logLine is one line, and is told when it is written.
type logLine struct {
	text    []byte
	written chan struct{}
}

func newPatientLog(w io.Writer, limit time.Duration) *patientLog {
	l := &patientLog{limit: limit, lines: make(chan logLine, mostLines)}
	go l.run(w)
	return l
}

func (l *patientLog) run(w io.Writer) {
	for line := range l.lines {
		if _, err := w.Write(line.text); err != nil {
			l.lost.Add(1)
		} else if n := l.lost.Swap(0); n > 0 {
			fmt.Fprintf(w, "flanneld: %d lines of the log are lost, since nothing read standard error\n", n)
		}
		l.waiting.Add(-1)
		close(line.written)
	}
}

// Write implements [io.Writer]. It returns no error: nothing can be done about a log without a reader.
func (l *patientLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := logLine{text: bytes.Clone(text), written: make(chan struct{})}
	others := l.waiting.Add(1) - 1
	select {
	case l.lines <- line:
	default:
		l.waiting.Add(-1)
		l.lost.Add(1)
		return len(text), nil
	}
	if others > 0 {
		return len(text), nil // an earlier line has waited for its time
	}
	timer := time.NewTimer(l.limit)
	defer timer.Stop()
	select {
	case <-line.written:
	case <-timer.C:
	}
	return len(text), nil
}
