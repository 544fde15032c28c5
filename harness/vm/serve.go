package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/flanneld/flannel/harness/vm/wire"
)

// SocketEnv is the variable that names the socket of a [Server], for programs that want
// a command run in its machine.
const SocketEnv = "FLANNEL_VM_SOCKET"

// Server lets other programs run commands in a machine.
type Server struct {
	machine  *Machine
	extra    []string // variables for every command
	listener net.Listener
	handlers sync.WaitGroup
}

// Serve offers a machine on a socket in a folder that only this user may enter. The
// extra variables are added to each command's environment.
func Serve(m *Machine, dir string, extra []string) (*Server, error) {
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		return nil, fmt.Errorf("offer the machine to other programs: %w", err)
	}
	s := &Server{machine: m, extra: extra, listener: listener}
	s.handlers.Go(s.accept)
	return s, nil
}

// Path returns the socket's path.
func (s *Server) Path() string { return s.listener.Addr().String() }

// Close ends the service and waits for the running commands.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.handlers.Wait()
	return err
}

func (s *Server) accept() {
	for {
		asker, err := s.listener.Accept()
		if err != nil { // closed
			return
		}
		s.handlers.Go(func() { s.handle(asker) })
	}
}

// handle runs the one command of an asker. The command ends with the asker.
func (s *Server) handle(stream net.Conn) {
	defer stream.Close()
	asker := wire.NewConn(stream)
	first, err := asker.Receive()
	if err != nil || first.Start == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := *first.Start
	c.Env = append(c.Env, s.extra...)
	status, err := s.machine.run(ctx, c, asker.Stdout(0), asker.Stderr(0), func(id int) { go s.relay(asker, id, cancel) })
	_ = asker.Send(wire.Message{End: &wire.End{Status: status, Reason: reason(err)}}) // an asker that left needs no answer
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// relay passes the asker's signals on, and ends the command when the asker leaves.
func (s *Server) relay(asker *wire.Conn, id int, gone func()) {
	defer gone()
	for {
		m, err := asker.Receive()
		if err != nil {
			return
		}
		_ = s.machine.conn.Send(wire.Message{ID: id, Signal: m.Signal}) // the machine may just have ended
	}
}

// Ask lets the server at a socket run a command, and returns its exit status. It passes
// signals on.
func Ask(socket string, c wire.Command, signals <-chan os.Signal, stdout, stderr io.Writer) (int, error) {
	stream, err := net.Dial("unix", socket)
	if err != nil {
		return 1, fmt.Errorf("reach the machine: %w", err)
	}
	defer stream.Close()
	conn := wire.NewConn(stream)
	if err := conn.Send(wire.Message{Start: &c}); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				_ = conn.Send(wire.Message{Signal: number}) // the command may just have ended
			}
		}
	}()
	for {
		m, err := conn.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return 1, ErrEnded
		case err != nil:
			return 1, fmt.Errorf("hear from the machine: %w", err)
		case m.End != nil && m.End.Reason != "":
			return m.End.Status, errors.New(m.End.Reason)
		case m.End != nil:
			return m.End.Status, nil
		}
		if err := pass(m, stdout, stderr); err != nil {
			return 1, err
		}
	}
}

func pass(m wire.Message, stdout, stderr io.Writer) error {
	_, err := stdout.Write(m.Stdout)
	if err != nil {
		return err
	}
	_, err = stderr.Write(m.Stderr)
	return err
}
