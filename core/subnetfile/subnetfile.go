package subnetfile

import (
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// File is the content of a subnet file.
type File struct {
	Network config.Network // only the two Network prefixes count
	Subnet  lease.Key
	MTU     int // bytes
	IPMasq  bool
}

// Format returns the file's text.
func (f File) Format() []byte { panic("TODO") }

// Previous reads the subnet a former run had out of its file. A family whose
// value is missing, a list or malformed has no previous subnet; the key is
// invalid if none has. It never fails: the file is a hint.
func Previous(text []byte) lease.Key { panic("TODO") }
