package firewall

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// layout is where a family's tables of iptables-legacy have what
// (struct ipt_entry, struct ip6t_entry).
type layout struct {
	level    int // of the socket options
	next     int // offset of next_offset, a uint16
	counters int // offset of the counters
	size     int // of an entry's fixed part
}

func layoutOf(f cidr.Family) layout {
	return [...]layout{
		{level: unix.SOL_IP, next: 90, counters: 96, size: 112},
		{level: unix.SOL_IPV6, next: 142, counters: 152, size: 168},
	}[f]
}

const (
	xtGetInfo    = 64 // IPT_SO_GET_INFO, IP6T_SO_GET_INFO
	xtGetEntries = 65 // IPT_SO_GET_ENTRIES, IP6T_SO_GET_ENTRIES
	countersLen  = 16
	tableName    = 32
)

// xtInfo is struct ipt_getinfo.
type xtInfo struct {
	name       [tableName]byte
	validHooks uint32
	hookEntry  [5]uint32
	underflow  [5]uint32
	numEntries uint32
	size       uint32
}

// xtEntriesHead is struct ipt_get_entries without the entries, which begin
// where a 64-bit number may.
type xtEntriesHead struct {
	name [tableName]byte
	size uint32
	_    uint32
}

// printLegacy sums up the tables of iptables-legacy in the namespace of the
// calling thread, in which the chains that matter are. To ask for a table that
// is not there would make it.
func printLegacy(f cidr.Family) (imprint, error) {
	names, err := os.ReadFile(wordsOf(f).procNames)
	if errors.Is(err, fs.ErrNotExist) {
		return imprint{}, nil
	}
	if err != nil {
		return imprint{}, fmt.Errorf("list tables of iptables-legacy: %w", err)
	}
	there := strings.Fields(string(names))
	sum, any := sha256.New(), false
	for _, h := range dataplane.Hooks {
		table := placeOf(h).table
		if !slices.Contains(there, table) {
			continue
		}
		b, err := legacyTable(f, table)
		if err != nil {
			return imprint{}, fmt.Errorf("read table %s of %s-legacy: %w", table, wordsOf(f).iptables, err)
		}
		any = true
		sum.Write(withoutCounters(b, layoutOf(f)))
	}
	if !any {
		return imprint{}, nil
	}
	return imprint(sum.Sum(nil)), nil
}

// legacyTable returns the entries of a table.
func legacyTable(f cidr.Family, table string) ([]byte, error) {
	fd, err := unix.Socket(int(afOf(f)), unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	level := layoutOf(f).level
	for range dumpTries {
		var info xtInfo
		copy(info.name[:], table)
		if err := getsockopt(fd, level, xtGetInfo, unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))); err != nil {
			return nil, err
		}
		head := xtEntriesHead{name: info.name, size: info.size}
		buf := make([]byte, int(unsafe.Sizeof(head))+int(info.size))
		copy(buf, unsafe.Slice((*byte)(unsafe.Pointer(&head)), unsafe.Sizeof(head)))
		err := getsockopt(fd, level, xtGetEntries, buf)
		if err == unix.EAGAIN { // the table has another size by now
			continue
		}
		return buf[unsafe.Sizeof(head):], err
	}
	return nil, unix.EAGAIN
}

func getsockopt(fd, level, option int, buf []byte) error {
	size := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// withoutCounters clears what packets change.
func withoutCounters(entries []byte, l layout) []byte {
	out := bytes.Clone(entries)
	for at := 0; at+l.size <= len(out); {
		clear(out[at+l.counters-countersPad(l) : at+l.counters+countersLen])
		next := int(binary.NativeEndian.Uint16(out[at+l.next:]))
		if next < l.size {
			break
		}
		at += next
	}
	return out
}

// countersPad is how much before the counters is nobody's either.
func countersPad(l layout) int { return l.counters - l.next - 2 }
