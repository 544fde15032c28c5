package node

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/subnetfile"
)

// fileState is the content of the node's files, as far as the node knows it.
type fileState struct {
	busy    bool
	writing []Write
	subnet  []byte // as last written or seen since
	seen    bool   // the look under way began after the last write of the subnet file
	text    subnetText
	saveDue time.Time // earliest time of the next write of the state file
	dirty   bool      // the state has changed since the last save
	errs    map[File]error
	retryAt time.Time
	tries   int
	lastKey savedKey

	naming Holding // what the state file under way names
	named  Holding // what the state file names
}

// saveEvery returns the shortest time between two writes of the state file: a
// second, and more for a large file. A thousand leases are about 150 KB.
func saveEvery(leases int) time.Duration {
	return time.Second + time.Duration(leases)*time.Millisecond
}

func (f *fileState) wake() time.Time {
	switch {
	case f.busy:
		return time.Time{}
	case !f.retryAt.IsZero():
		return f.retryAt
	case f.dirty:
		return f.saveDue
	}
	return time.Time{}
}

// followFiles writes the subnet file once the host matches it, and saves the
// state when it changes. It writes a file only if its content differs.
func (n *Node) followFiles() {
	f := &n.files
	if key := n.savedKey(); key != f.lastKey {
		f.lastKey, f.dirty = key, true
	}
	if f.busy || n.now.Before(f.retryAt) {
		return
	}
	f.retryAt = time.Time{}
	var writes []Write
	if data := n.subnetFile(); data != nil && !bytes.Equal(data, f.subnet) {
		writes = append(writes, Write{File: SubnetFile, Data: data})
	}
	if f.dirty && !n.store.stale && n.lease.grant != nil && !n.now.Before(f.saveDue) {
		f.dirty, f.saveDue = false, n.now.Add(saveEvery(len(n.store.snap.Leases)))
		state := n.state()
		f.naming = state.Holding
		writes = append(writes, Write{File: StateFile, Encode: state.encode})
	}
	if len(writes) > 0 {
		f.busy, f.writing = true, writes
		n.effects.Writes = writes
	}
}

// writesSubnet reports whether a write of the subnet file is under way.
func (f *fileState) writesSubnet() bool {
	return slices.ContainsFunc(f.writing, func(w Write) bool { return w.File == SubnetFile })
}

// savesFirst reports whether a plan waits because it makes or renames a device that the state file does not name yet. A
// process that dies before such a device has its address leaves nothing on it by which the next run could
// know it. The plan waits for one write, and not at all while a file cannot be written.
func (n *Node) savesFirst(plan []dataplane.Op) bool {
	f := &n.files
	unnamed := slices.ContainsFunc(plan, func(op dataplane.Op) bool {
		link, isLink := op.Object.(dataplane.Link)
		comes := isLink && (op.Verb == dataplane.Create || link.Was != "")
		return comes && !slices.Contains(f.named.Links, link.Name)
	})
	if !unnamed || len(f.errs) > 0 || n.store.stale || n.lease.grant == nil {
		return false
	}
	f.dirty, f.saveDue = true, time.Time{}
	return true
}

// sawSubnetFile compares the file with the last write of this run: another
// program may have removed or overwritten it, and then no pod can be added. It
// ignores a look that began before the last write of it.
func (n *Node) sawSubnetFile(text []byte) {
	f := &n.files
	if f.subnet != nil && f.seen && !f.writesSubnet() && !bytes.Equal(text, f.subnet) {
		f.subnet = []byte{} // this run has written it, and it is gone
		n.event(Warning, "subnet-file-gone", "the subnet file is not as it was written; writing it again")
	}
}

// subnetFile returns the text of the subnet file. It returns nil while the host
// is not programmed and while the node is fenced.
func (n *Node) subnetFile() []byte {
	if !n.programmable() || n.host.standing != n.lease.self.Key || n.fenced() {
		return nil
	}
	t := &n.files.text
	subnet, mtu := n.lease.self.Key, n.mtu()
	if n.fileWaits() {
		return nil
	}
	if subnet != t.subnet || mtu != t.mtu {
		file := subnetfile.File{Network: n.network.config, Subnet: subnet, MTU: mtu, IPMasq: n.opts.Firewall.Masquerade}
		*t = subnetText{subnet, mtu, file.Format()}
	}
	return t.text
}

// fileWaits reports whether the subnet file does not name the present subnet until a peer's
// command has ended.
func (n *Node) fileWaits() bool {
	own := n.lease.self.Key
	return own != n.files.text.subnet && n.commandsHold(own.V4)
}

// subnetText caches the text of the subnet file, which every Step needs.
type subnetText struct {
	subnet lease.Key
	mtu    int
	text   []byte
}

func (n *Node) wroteFiles(w Wrote) {
	f := &n.files
	f.busy, f.seen = false, f.seen && !f.writesSubnet()
	f.errs = map[File]error{}
	for i, err := range w.Errs {
		write := f.writing[i]
		switch {
		case err != nil:
			f.errs[write.File] = err
			n.once(Error, "write-failed", fmt.Sprintf("%s file: %v", write.File, err))
		case write.Remove:
			n.event(Info, "file-removed", fmt.Sprintf("%s file removed", write.File))
		case write.File == StateFile:
			f.named = f.naming
		case write.File == SubnetFile:
			f.subnet = write.Data
			line := bytes.ReplaceAll(bytes.TrimSpace(write.Data), []byte("\n"), []byte(" "))
			n.event(Info, "subnet-file", fmt.Sprintf("subnet file written: %s", line))
		}
	}
	n.removedFiles(f.writing)
	f.writing = nil
	if len(f.errs) == 0 {
		f.tries = 0
		return
	}
	f.dirty = f.dirty || f.errs[StateFile] != nil
	f.tries++
	f.retryAt = n.now.Add(n.backoff(f.tries, time.Second, time.Minute))
}

// String returns the role in lower case.
func (f File) String() string {
	return [...]string{"unknown", "subnet", "state"}[f]
}
