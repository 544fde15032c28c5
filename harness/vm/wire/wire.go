package wire

import (
	"encoding/gob"
	"fmt"
	"io"
	"sync"
	"syscall"
)

// Command is a program to run in the guest.
type Command struct {
	Args []string // Args[0] is the program, looked up in the guest's PATH
	Dir  string
	Env  []string

	Input bool // its input comes in Stdin messages; otherwise it is empty
}

// End says how a command ended.
type End struct {
	Status int    // the exit status; 128 and the signal if one ended it
	Reason string // why the command could not run, or ""
}

// Message is one step of a conversation. Exactly one field besides ID is set.
type Message struct {
	ID     int // of the command; the asker chooses it
	Ready  bool
	Alive  bool // asks whether the guest is alive, and is its answer
	Start  *Command
	Signal syscall.Signal
	Stdin  []byte
	Stdout []byte
	Stderr []byte
	End    *End
}

// Conn is one end of a connection. Send may be called by several goroutines,
// Receive by one.
type Conn struct {
	mu  sync.Mutex // of enc
	enc *gob.Encoder
	dec *gob.Decoder
}

// NewConn returns the end of a connection over a stream of bytes.
func NewConn(stream io.ReadWriter) *Conn {
	return &Conn{enc: gob.NewEncoder(stream), dec: gob.NewDecoder(stream)}
}

// Send writes a message.
func (c *Conn) Send(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enc.Encode(m); err != nil {
		return fmt.Errorf("send a message about command %d: %w", m.ID, err)
	}
	return nil
}

// Receive reads the next message. It returns io.EOF after the last one.
func (c *Conn) Receive() (Message, error) {
	var m Message
	err := c.dec.Decode(&m)
	return m, err
}

// Stdout returns a writer whose text travels as the output of a command.
func (c *Conn) Stdout(id int) io.Writer {
	return writer(func(text []byte) error { return c.Send(Message{ID: id, Stdout: text}) })
}

// Stderr returns a writer whose text travels as the error output of a command.
func (c *Conn) Stderr(id int) io.Writer {
	return writer(func(text []byte) error { return c.Send(Message{ID: id, Stderr: text}) })
}

type writer func([]byte) error

func (w writer) Write(text []byte) (int, error) {
	if len(text) == 0 {
		return 0, nil
	}
	if err := w(text); err != nil {
		return 0, err
	}
	return len(text), nil
}
