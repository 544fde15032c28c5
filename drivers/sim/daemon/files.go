package daemon

import (
	"fmt"
	"slices"

	"github.com/flanneld/flannel/core/node"
)

// daemonFiles is the part of a host's disk that a daemon uses.
type daemonFiles struct {
	data map[node.File]node.Write // the last write of each existing file
	fail map[node.File]error      // the errors of writes
	torn map[node.File]bool       // the machine goes down on the next write
}

func newDaemonFiles() daemonFiles {
	return daemonFiles{data: map[node.File]node.Write{}, fail: map[node.File]error{}, torn: map[node.File]bool{}}
}

// File returns the content of a file, and whether it exists.
func (d *Daemon) File(f node.File) ([]byte, bool) {
	w, ok := d.files.data[f]
	return slices.Clone(content(w)), ok
}

// SetFile sets the content of a file, behind the daemon's back; nil removes it.
func (d *Daemon) SetFile(f node.File, data []byte) {
	d.host.World().Note(d.host.Name()+": file "+f.String(), string(data))
	if data == nil {
		delete(d.files.data, f)
		return
	}
	d.files.data[f] = node.Write{File: f, Data: slices.Clone(data)}
}

// content encodes a file when it is read and not when it is written, because
// thousands of nodes write thousands of leases each time one changes.
func content(w node.Write) []byte {
	data, err := w.Content()
	if err != nil {
		panic(fmt.Sprintf("daemon: %s file: %v", w.File, err)) // a node writes only valid content
	}
	return data
}

// FailWrites makes every write of a file fail with an error; nil ends that.
func (d *Daemon) FailWrites(f node.File, err error) { d.files.fail[f] = err }

// TearWrite makes the process die on its next write of a file and leaves half of
// the text there, as a power cut does without an atomic replacement. With on
// false it cancels that.
func (d *Daemon) TearWrite(f node.File, on bool) { d.files.torn[f] = on }

// replace is a write by the process.
func (d *Daemon) replace(w node.Write) error {
	if err := d.files.fail[w.File]; err != nil {
		return fmt.Errorf("write %s file: %w", w.File, err)
	}
	if w.Remove {
		d.SetFile(w.File, nil)
		return nil
	}
	if d.files.torn[w.File] {
		delete(d.files.torn, w.File)
		data := content(w)
		d.SetFile(w.File, data[:len(data)/2])
		d.Kill()
		return nil
	}
	d.host.World().Note(d.host.Name()+": file "+w.File.String(), string(w.Data))
	d.files.data[w.File] = w
	if w.File == node.SubnetFile && d.opts.OnSubnetFile != nil {
		d.opts.OnSubnetFile(slices.Clone(w.Data))
	}
	return nil
}
