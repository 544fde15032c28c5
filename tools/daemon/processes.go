package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Processes returns the ids of the processes whose name begins with flanneld, such as
// flanneld-amd64, in the network namespace of this process. It finds those that /proc
// shows.
func Processes() ([]int, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(comm), "flanneld") {
			continue // it has ended, or is another program
		}
		space, err := os.Readlink(filepath.Join(filepath.Dir(name), "ns/net"))
		if err != nil || space != own {
			continue
		}
		var id int
		if _, err := fmt.Sscanf(name, "/proc/%d/", &id); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
