package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Processes returns the ids of the processes whose name begins with flanneld, such as
// flanneld-amd64, in the network namespace of this process. It finds those that /proc
// shows. If it finds none, and one whose namespace only root may see, it returns an error.
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
	var hidden error
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(comm), "flanneld") {
			continue // it has ended, or is another program
		}
		space, err := os.Readlink(filepath.Join(filepath.Dir(name), "ns/net"))
		if errors.Is(err, fs.ErrPermission) {
			hidden = fmt.Errorf("it is not known whether %s runs in this network namespace: run as root: %w",
				filepath.Dir(name), err)
		}
		if err != nil || space != own {
			continue
		}
		var id int
		if _, err := fmt.Sscanf(name, "/proc/%d/", &id); err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, hidden
	}
	return ids, nil
}
