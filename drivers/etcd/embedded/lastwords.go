package embedded

import (
	"fmt"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// lastWords is a log with only the lines after which etcd ends the process or panics, such as on a full disk
// or with a damaged file. Each names the folder and what to do.
type lastWords struct {
	dir string
	say func(text string)
}

func newLastWords(dir string, say func(string)) *zap.Logger {
	if say == nil {
		say = func(text string) { fmt.Fprintln(os.Stderr, text) }
	}
	return zap.New(lastWords{dir, say}, zap.WithPanicHook(zapcore.WriteThenFatal))
}

// Enabled implements [zapcore.LevelEnabler].
func (lastWords) Enabled(l zapcore.Level) bool { return l >= zapcore.PanicLevel }

// With implements [zapcore.Core].
func (w lastWords) With([]zapcore.Field) zapcore.Core { return w }

// Check implements [zapcore.Core].
func (w lastWords) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if w.Enabled(e.Level) {
		return to.AddCore(e, w)
	}
	return to
}

// Write implements [zapcore.Core].
func (w lastWords) Write(e zapcore.Entry, fields []zapcore.Field) error {
	about := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(about)
	}
	text := e.Message
	if why, has := about.Fields["error"]; has {
		text = fmt.Sprintf("%s: %v", text, why)
	}
	w.say(ended(w.dir, text))
	return nil
}

// Sync implements [zapcore.Core].
func (lastWords) Sync() error { return nil }

// ended says why etcd cannot go on, and what an operator does.
func ended(dir, why string) string {
	return fmt.Sprintf("embedded etcd in %s cannot go on: %s; if the disk is full, make room and start again; if a file "+
		"is damaged, restore the folder from a backup, or move it away: nodes then write their leases again", dir, why)
}
