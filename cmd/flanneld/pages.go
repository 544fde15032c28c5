package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram gives back the pages of the program file that the initialisation of almost 800 packages
// has touched: most of them are never needed again. The kernel maps a page anew, from its page cache,
// when the process touches it. Parts of the file with pages that the process has changed stay.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	for _, m := range unchanged(string(text), program) {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("release the pages of %s at %x: %w", program, m.from, errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// unchanged returns the mappings of a file that hold no page of the process's own, from the text
// of /proc/PID/smaps (proc_pid_smaps(5)): a head line for each mapping, and lines such as
// "Anonymous:  4 kB" behind it.
func unchanged(smaps, file string) []mapping {
	var found []mapping
	var last mapping
	of := false // whether last is of the file
	for line := range strings.Lines(smaps) {
		fields := strings.Fields(line)
		var m mapping
		n, _ := fmt.Sscanf(line, "%x-%x ", &m.from, &m.to)
		switch {
		case n == 2:
			last, of = m, mapped(line) == file && !strings.Contains(fields[1], "w")
		case of && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			found = append(found, last)
		case of && len(fields) == 3 && fields[0] == "Swap:" && fields[1] != "0": // "Anonymous" counts only memory
			found = slices.DeleteFunc(found, func(m mapping) bool { return m == last })
		}
	}
	return found
}

// mapped returns the file that a head line of smaps names behind five other fields. Its name may have spaces.
func mapped(line string) string {
	rest := strings.TrimSuffix(line, "\n")
	for range 5 {
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			return ""
		}
		rest = strings.TrimLeft(rest[end:], " ")
	}
	return rest
}
