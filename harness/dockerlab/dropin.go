package dockerlab

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// dropIn holds the commands that systemd runs by the drop-in for Docker's unit.
type dropIn struct {
	before string // the command before each start
	file   string // the file with the variables of the start
	start  string // the command line, with variables
}

// readDropIn reads the drop-in.
func readDropIn(path string) (dropIn, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return dropIn{}, err
	}
	var d dropIn
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStartPre":
			d.before = value
		case "EnvironmentFile":
			d.file = strings.TrimPrefix(value, "-")
		case "ExecStart":
			d.start = value
		}
	}
	if d.before == "" || d.file == "" || !strings.Contains(d.start, "-H fd://") {
		return d, fmt.Errorf("%s: %w", path, errors.New("it lacks a command or the file of variables"))
	}
	return d, nil
}

// script returns a shell script that does the same without systemd's socket.
func (d dropIn) script(options string) string {
	return fmt.Sprintf("%s\n. %s\n%s", d.before, d.file, d.plain(options))
}

// plain returns a shell script that starts dockerd without the options from flannel.
func (d dropIn) plain(options string) string {
	start := strings.Replace(d.start, "fd://", "unix://"+socket, 1)
	return fmt.Sprintf("DOCKER_OPTS='%s'\nexec %s --pidfile=%s\n", options, start, pidFile)
}
