package check

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readRoutes reads the kernel's own lists of routes.
func (g *gatherer) readRoutes() {
	for _, line := range lines(g.text("/proc/thread-self/net/route")) {
		if r, ok := parseRoute4(strings.Fields(line)); ok {
			g.f.Routes = append(g.f.Routes, r)
		}
	}
	for _, line := range lines(g.text("/proc/thread-self/net/ipv6_route")) {
		if r, ok := parseRoute6(strings.Fields(line)); ok {
			g.f.Routes = append(g.f.Routes, r)
		}
	}
}

// parseRoute4 reads a line of /proc/thread-self/net/route: interface, destination, gateway, flags,
// …, mask as its eighth word. Numbers are hexadecimal, in the host's order of bytes.
func parseRoute4(words []string) (Route, bool) {
	if len(words) < 8 {
		return Route{}, false
	}
	dst, ok := hostOrder(words[1])
	via, okVia := hostOrder(words[2])
	mask, okMask := hostOrder(words[7])
	if !ok || !okVia || !okMask {
		return Route{}, false // the line of titles
	}
	bits := 0
	for b := binary.BigEndian.Uint32(mask.AsSlice()); b != 0; b <<= 1 {
		bits++
	}
	r := Route{Dst: netip.PrefixFrom(dst, bits), Link: words[0], Via: !via.IsUnspecified()}
	return r, bits > 0
}

func hostOrder(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, false
	}
	var a [4]byte
	binary.NativeEndian.PutUint32(a[:], binary.BigEndian.Uint32(b))
	return netip.AddrFrom4(a), true
}

// parseRoute6 reads a line of /proc/thread-self/net/ipv6_route: destination, length, source,
// length, gateway, …, interface as its last word.
func parseRoute6(words []string) (Route, bool) {
	if len(words) < 10 {
		return Route{}, false
	}
	dst, err := hex.DecodeString(words[0])
	bits, errBits := strconv.ParseUint(words[1], 16, 8)
	a, ok := netip.AddrFromSlice(dst)
	last := words[len(words)-1]
	if err != nil || errBits != nil || !ok || bits == 0 || last == "lo" || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return Route{}, false
	}
	return Route{Dst: netip.PrefixFrom(a, int(bits)), Link: last, Via: strings.Trim(words[4], "0") != ""}, true
}

// readPorts finds the users of UDP ports.
func (g *gatherer) readPorts() {
	g.f.UDP = map[uint16]string{}
	inodes := map[string]uint16{}
	for _, file := range []string{"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"} {
		for _, line := range lines(g.text(file)) {
			words := strings.Fields(line)
			if len(words) < 10 {
				continue
			}
			_, text, _ := strings.Cut(words[1], ":")
			port, err := strconv.ParseUint(text, 16, 16)
			if err != nil {
				continue // the line of titles
			}
			g.f.UDP[uint16(port)] = ""
			inodes["socket:["+words[9]+"]"] = uint16(port)
		}
	}
	for socket, port := range inodes {
		if !slices.Contains(g.f.wantedPorts(), port) {
			delete(inodes, socket)
		}
	}
	if len(inodes) > 0 {
		g.nameUsers(inodes)
	}
}

// nameUsers finds the processes that have the sockets open. Without root only the
// user's own can be seen.
func (g *gatherer) nameUsers(sockets map[string]uint16) {
	files, _ := filepath.Glob(g.at("/proc/[0-9]*/fd/*")) // the pattern is well formed
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil {
			continue // closed meanwhile
		}
		if port, ok := sockets[target]; ok {
			comm, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(file)), "comm"))
			g.f.UDP[port] = strings.TrimSpace(string(comm))
		}
	}
}

// readDisks asks the file systems of folders, or of the next folder above that exists.
func (g *gatherer) readDisks() {
	for _, folder := range g.Folders {
		path := folder
		for path != "/" && !g.exists(path) {
			path = filepath.Dir(path)
		}
		var stat unix.Statfs_t
		if err := unix.Statfs(g.at(path), &stat); err != nil {
			g.note(folder, fmt.Errorf("statfs: %w", err))
			continue
		}
		d := Disk{Path: folder, Free: stat.Bavail * uint64(stat.Bsize), Inodes: stat.Ffree,
			ReadOnly: stat.Flags&unix.ST_RDONLY != 0}
		if stat.Files == 0 { // the file system has no fixed number of them
			d.Inodes = leastInodes
		}
		g.f.Disks = append(g.f.Disks, d)
	}
}
