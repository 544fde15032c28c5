package flannelctl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A dump asks its own program for the version, which is that of the tests here: it must not run them again.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"version"}) {
		fmt.Println("flannelctl under test")
		return
	}
	os.Exit(m.Run())
}

// arguments splits a command line at spaces, except those in the name of the folder for temporary files.
func arguments(line string) []string {
	const stand = "\x01"
	args := strings.Fields(strings.ReplaceAll(line, os.TempDir(), stand))
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], stand, os.TempDir())
	}
	return args
}

// call runs flannelctl and returns its exit status and what it printed.
func call(args ...string) (status int, stdout, stderr string) { return callAt(0, args...) }

// callAt runs flannelctl on a terminal of that many columns; 0: on none.
func callAt(width int, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{stderr: &errs}
	a.Out = &out
	a.Width, a.Terminal = width, width > 0
	status = a.run(context.Background(), args)
	return status, out.String(), errs.String()
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string // parts
	}{
		{"version", statusOK, "flannelctl  ", ""},
		{"version -o json", statusOK, `"Flannelctl": "`, ""},
		{"version -o yaml", statusOK, "Flannelctl: ", ""},
		{"version -o xml", statusUsage, "", "want one of table, json, yaml"},
		{"schema", statusOK, "leases list\n", ""},
		{"schema leases list -o yaml", statusOK, "title: the result of flannelctl leases list\n", ""},
		{"schema pods", statusUsage, "", `no schema of "pods"`},
		{"version one", statusUsage, "", `unknown command "one" for "flannelctl version"`},
		{"trace 10.5.1.7", statusUsage, "", "accepts 2 arg(s), received 1"},
		{"trace pod 10.5.2.7", statusUsage, "", `SRC: ParseAddr("pod"): unable to parse IP`},
		{"trace 10.5.1.7 pod", statusUsage, "", `DST: ParseAddr("pod"): unable to parse IP`},
		{"trace 10.5.1.7 fd00::1", statusUsage, "", "are of different families"},
		{"trace 10.5.1.7 10.5.2.7 --size 20", statusUsage, "", "--size 20: want 41 to 65535"},
		{"--nonsense", statusUsage, "", "unknown flag: --nonsense"},
		{"nonsense", statusUsage, "", `unknown command "nonsense"`},
		{"--help", statusOK, "exit status is 0 if all is well", ""},
		{"", statusOK, "Available Commands:", ""},
		{"completion bash", statusOK, "bash completion", ""},
		{"completion zsh", statusOK, "#compdef flannelctl", ""},
		{"completion fish", statusOK, "fish completion", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, stdout, stderr := call(arguments(c.args)...)
			if status != c.status || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("status %d, want %d; printed %q; errors %q", status, c.status, stdout, stderr)
			}
			if c.stderr == "" && stderr != "" {
				t.Errorf("errors: %q", stderr)
			}
		})
	}
}

// Each command has a manual page that names its flags.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if status, _, stderr := call("man", dir); status != statusOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for page, part := range map[string]string{
		"flannelctl.8": "flannelctl-status(8)", "flannelctl-trace.8": "--size", "flannelctl-leases-release.8": "--owner",
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), `\-`, "-"), part) {
			t.Errorf("%s lacks %s (%v):\n%s", page, part, err, text)
		}
	}
}
