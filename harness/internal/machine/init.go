package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// request asks the first process of a machine to run a program.
type request struct {
	ID   int
	Args []string
	Env  []string
	Log  string // a daemon's name, for its log; empty for a command, whose end and output are in the answer
	Stop string // the name of a daemon to end; all other fields are empty then
}

// answer is the result of the request with that ID.
type answer struct {
	ID     int
	Output string
	Status int
	Err    string
}

// keeper is the first process of a machine: it starts programs and waits for all
// processes that lose their parent.
type keeper struct {
	logs string // the folder of the daemons' logs

	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
	daemons map[string]int // process ids by name

	answers sync.Mutex
	out     *json.Encoder
}

// serveInit answers requests until in ends. The kernel then ends all processes of the machine.
func serveInit(in io.Reader, out io.Writer, logs string) error {
	k := &keeper{logs: logs, waiting: map[int]chan syscall.WaitStatus{}, daemons: map[string]int{},
		out: json.NewEncoder(out)}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		for range ended {
			k.reap()
		}
	}()
	defer func() {
		signal.Stop(ended)
		close(ended)
		<-reaped
	}()
	k.reply(answer{})
	requests := json.NewDecoder(in)
	for {
		var r request
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		go func() {
			a, err := k.serve(r)
			a.ID = r.ID
			if err != nil {
				a.Err = err.Error()
			}
			k.reply(a)
		}()
	}
}

// reply sends an answer. It ignores errors: a test that no longer listens has ended.
func (k *keeper) reply(a answer) {
	k.answers.Lock()
	defer k.answers.Unlock()
	_ = k.out.Encode(a)
}

func (k *keeper) serve(r request) (answer, error) {
	switch {
	case r.Stop != "":
		return answer{}, k.stop(r.Stop)
	case r.Log != "":
		return answer{}, k.daemon(r)
	}
	return k.command(r)
}

// reap collects the processes that have ended.
func (k *keeper) reap() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if done, ok := k.waiting[pid]; ok {
			delete(k.waiting, pid)
			done <- status
		}
	}
}

// start starts a program; its end comes through the channel.
func (k *keeper) start(r request, out *os.File) (int, <-chan syscall.WaitStatus, error) {
	env := append(os.Environ(), r.Env...)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close() // the program has its own copy
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := syscall.ForkExec(r.Args[0], r.Args, &syscall.ProcAttr{Dir: "/", Env: env,
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", r.Args[0], err)
	}
	done := make(chan syscall.WaitStatus, 1)
	k.waiting[pid] = done
	return pid, done, nil
}

// daemon starts a program and does not wait for its end, which it notes in the log.
func (k *keeper) daemon(r request) error {
	log, err := os.OpenFile(filepath.Join(k.logs, logFile(r.Log)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	pid, done, err := k.start(r, log)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	k.mu.Lock()
	k.daemons[r.Log] = pid
	k.mu.Unlock()
	go func() {
		defer log.Close()
		status := <-done
		k.mu.Lock()
		if k.daemons[r.Log] == pid {
			delete(k.daemons, r.Log)
		}
		k.mu.Unlock()
		_, _ = fmt.Fprintf(log, "%s ended: status %d, signal %d\n", r.Log, status.ExitStatus(), status.Signal())
	}()
	return nil
}

// stop kills a daemon.
func (k *keeper) stop(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, ok := k.daemons[name]
	if !ok {
		return fmt.Errorf("stop %s: it does not run", name)
	}
	delete(k.daemons, name)
	return unix.Kill(pid, unix.SIGKILL)
}

// command runs a program to its end.
func (k *keeper) command(r request) (answer, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return answer{}, err
	}
	defer read.Close()
	_, done, err := k.start(r, write)
	_ = write.Close() // the program has its own copy
	if err != nil {
		return answer{}, err
	}
	output, err := io.ReadAll(read)
	status := <-done
	if status.Signaled() {
		return answer{Output: string(output), Status: 128 + int(status.Signal())}, err
	}
	return answer{Output: string(output), Status: status.ExitStatus()}, err
}
