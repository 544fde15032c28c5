// Command unreached lists the blocks of the core that a program built with
// -cover never ran:
//
//	unreached DIR PACKAGE...
//
// DIR is the value of GOCOVERDIR, and a package is named by its folder, such as
// core/node. Each block has a line with its place and its beginning. A search
// that passed proves nothing about these blocks.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/cover"
)

const module = "github.com/flanneld/flannel/"

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: unreached DIR PACKAGE...")
		os.Exit(2)
	}
	profiles, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "unreached:", err)
		os.Exit(1)
	}
	for _, folder := range os.Args[2:] {
		if err := tell(os.Stdout, profiles, folder); err != nil {
			fmt.Fprintln(os.Stderr, "unreached:", err)
			os.Exit(1)
		}
	}
}

// read converts the counters that the program left in dir.
func read(dir string) ([]*cover.Profile, error) {
	profile := filepath.Join(dir, "profile.txt")
	out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("read the counters in %s: %w\n%s", dir, err, out)
	}
	profiles, err := cover.ParseProfiles(profile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no counters: was the program built with -cover, and did it end by itself?", dir)
	}
	return profiles, err
}

// tell prints the share of a package's statements that ran, and the blocks that did
// not run.
func tell(w io.Writer, profiles []*cover.Profile, folder string) error {
	var ran, all int
	var lines []string
	for _, p := range profiles {
		name := strings.TrimPrefix(p.FileName, module)
		if path.Dir(name) != folder {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		source := strings.Split(string(text), "\n")
		for _, b := range p.Blocks {
			all += b.NumStmt
			if b.Count > 0 {
				ran += b.NumStmt
			} else if b.NumStmt > 0 {
				lines = append(lines, fmt.Sprintf("    %s:%d: %s", name, b.StartLine, beginning(source, b)))
			}
		}
	}
	if all == 0 {
		_, err := fmt.Fprintf(w, "          %s is not part of the program\n", folder)
		return err
	}
	_, err := fmt.Fprintf(w, "  %5.1f %% of %s\n%s", 100*float64(ran)/float64(all), folder, join(lines))
	return err
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// beginning returns the line that leads into a block: its condition, or its
// first statement.
func beginning(source []string, b cover.ProfileBlock) string {
	for n := b.StartLine; n <= min(b.EndLine, len(source)); n++ {
		if line := strings.TrimSpace(source[n-1]); line != "" {
			return line
		}
	}
	return ""
}
