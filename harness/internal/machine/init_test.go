package machine

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// first is the first process of a machine, without the machine.
type first struct {
	t    *testing.T
	in   *json.Encoder
	out  *json.Decoder
	logs string
}

func newFirst(t *testing.T) first {
	t.Helper()
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	f := first{t: t, in: json.NewEncoder(in), out: json.NewDecoder(out), logs: t.TempDir()}
	ended := make(chan error, 1)
	go func() { ended <- serveInit(inRead, outWrite, f.logs) }()
	t.Cleanup(func() {
		_ = in.Close()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	f.answer() // that it serves
	return f
}

func (f first) answer() answer {
	f.t.Helper()
	var a answer
	if err := f.out.Decode(&a); err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f first) ask(r request) answer {
	f.t.Helper()
	if err := f.in.Encode(r); err != nil {
		f.t.Fatal(err)
	}
	return f.answer()
}

func TestFirstProcessRunsCommands(t *testing.T) {
	f := newFirst(t)
	for _, c := range []struct {
		script string
		want   answer
	}{
		{"echo out; echo err >&2", answer{ID: 7, Output: "out\nerr\n"}},
		{"exit 3", answer{ID: 7, Status: 3}},
		{"kill -KILL $$", answer{ID: 7, Status: 137}},
		{`printf %s "$WHO"`, answer{ID: 7, Output: "n1"}},
	} {
		got := f.ask(request{ID: 7, Args: []string{"/bin/sh", "-c", c.script}, Env: []string{"WHO=n1"}})
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.script, got, c.want)
		}
	}
	got := f.ask(request{ID: 8, Args: []string{"/no/program"}})
	if got.ID != 8 || !strings.Contains(got.Err, "/no/program") {
		t.Errorf("a missing program: %+v", got)
	}
}

func TestFirstProcessKeepsDaemons(t *testing.T) {
	f := newFirst(t)
	if a := f.ask(request{Log: "sleeper", Args: []string{"/bin/sh", "-c", "echo hello; exec sleep 1000"}}); a.Err != "" {
		t.Fatal(a.Err)
	}
	if a := f.ask(request{Stop: "sleeper"}); a.Err != "" {
		t.Fatal(a.Err)
	}
	// Its end appears in the log a moment later.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		log, err := os.ReadFile(filepath.Join(f.logs, "sleeper.log"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "sleeper ended: status -1, signal 9\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has %q", log)
		}
	}
	if a := f.ask(request{Stop: "sleeper"}); !strings.Contains(a.Err, "does not run") {
		t.Errorf("stopping it again: %+v", a)
	}
}
