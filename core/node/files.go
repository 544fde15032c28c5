package node

import (
	"bytes"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/subnetfile"
)

// fileState is what the node's files hold, as far as it knows.
type fileState struct {
	busy    bool
	writing []Write
	subnet  []byte // as last written or seen since
	seen    bool   // the look that is under way sees what was last written
	text    subnetText
	saveDue time.Time // when the state file may be written next
	dirty   bool      // there is something new to save
	errs    map[File]error
	retryAt time.Time
	tries   int
	lastKey savedKey
}

// saveEvery bounds how often the state file is written: a second, and longer
// the larger it is. A thousand leases are about 150 KB.
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

// followFiles writes the subnet file once the host is as it announces, and
// saves the state as it changes. Both are rewritten only when they differ.
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
		writes = append(writes, Write{File: StateFile, Encode: n.state().encode})
	}
	if len(writes) > 0 {
		f.busy, f.writing = true, writes
		n.effects.Writes = writes
	}
}

// sawSubnetFile compares the file with what this run has put there: somebody
// may have removed or overwritten it, and no pod can be added then. What a write
// overtook is no news.
func (n *Node) sawSubnetFile(text []byte) {
	if f := &n.files; f.subnet != nil && f.seen && !f.busy && !bytes.Equal(text, f.subnet) {
		f.subnet = []byte{} // written, and not there any more
		n.event(Warning, "subnet-file-gone", "the subnet file is not as it was written; writing it again")
	}
}

// subnetFile is the text to announce, or nil as long as there is nothing
// programmed or nothing that may be announced.
func (n *Node) subnetFile() []byte {
	if !n.programmable() || !n.host.standing || n.fenced() {
		return nil
	}
	t := &n.files.text
	if subnet, mtu := n.lease.self.Key, n.mtu(); subnet != t.subnet || mtu != t.mtu {
		file := subnetfile.File{Network: n.network.config, Subnet: subnet, MTU: mtu, IPMasq: n.opts.Firewall.Masquerade}
		*t = subnetText{subnet, mtu, file.Format()}
	}
	return t.text
}

// subnetText keeps the last text for a config: it is asked for each Step.
type subnetText struct {
	subnet lease.Key
	mtu    int
	text   []byte
}

func (n *Node) wroteFiles(w Wrote) {
	f := &n.files
	f.busy, f.seen = false, false
	f.errs = map[File]error{}
	for i, err := range w.Errs {
		write := f.writing[i]
		switch {
		case err != nil:
			f.errs[write.File] = err
			n.once(Error, "write-failed", fmt.Sprintf("%s file: %v", write.File, err))
		case write.File == SubnetFile:
			f.subnet = write.Data
			n.event(Info, "subnet-file", "subnet file written: "+string(bytes.ReplaceAll(bytes.TrimSpace(write.Data), []byte("\n"), []byte(" "))))
		}
	}
	if f.writing = nil; len(f.errs) == 0 {
		f.tries = 0
		return
	}
	f.dirty = f.dirty || f.errs[StateFile] != nil
	f.tries++
	f.retryAt = n.now.Add(n.backoff(f.tries, time.Second, time.Minute))
}

// String names the role.
func (f File) String() string {
	return [...]string{"unknown", "subnet", "state"}[f]
}
