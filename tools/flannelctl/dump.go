package flannelctl

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/internal/hostpaths"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/dump"
	"github.com/flanneld/flannel/tools/output"
)

// dumped is the result of the command dump.
type dumped struct {
	File  string   `json:"File"`
	Files []string `json:"Files"`
}

// Text names the archive.
func (d dumped) Text(p *output.Page) {
	p.Line(output.Good(d.File), output.Plain(fmt.Sprintf(
		": %d files, without credentials; missing.txt in it says what could not be read", len(d.Files))))
}

func (a *app) dump() *cobra.Command {
	f := &checkFlags{}
	var file string
	c := &cobra.Command{
		Use:   "dump",
		Short: "Write an archive for a person who helps: tables, rules, status, log",
		Long: "dump writes one archive, for root alone, with what the kernel, the daemon and the files of this host say. " +
			"It shows no credential: not those in flanneld's flags, environment, config and key files, nor texts that " +
			"look like one. It works without a daemon, and says in missing.txt what it could not learn.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.runDump(c.Context(), f, file) },
	}
	a.defineDatastore(&f.datastore, c)
	flags := c.Flags()
	flags.StringVarP(&file, "file", "f", "", "the archive's `path` (default flannel-HOST-TIME.tar.gz, here)")
	f.files.define(flags)
	return c
}

func (a *app) runDump(ctx context.Context, f *checkFlags, file string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	now := time.Now()
	s := dump.Sources{
		Name: fmt.Sprintf("flannel-%s-%s", host, now.UTC().Format("20060102T150405Z")), Now: now,
		SubnetFile: f.files.subnetFile, StateFiles: f.files.statePaths(), KeyFiles: []string{f.files.keyFile()},
		Credentials: []string{f.datastore.etcd.Password},
		Run:         runProgram,
	}
	for _, path := range s.StateFiles {
		s.KeyFiles = append(s.KeyFiles, hostpaths.Secrets(path))
	}
	s.Daemons, _ = daemon.Processes() // without /proc there is none to ask
	client := daemon.Local(f.files.subnetFile)
	s.Ask = map[string]func(context.Context) (any, error){
		"status.json": func(ctx context.Context) (any, error) { return client.Status(ctx) },
		"diff.json":   func(ctx context.Context) (any, error) { return client.Diff(ctx) },
		"state.json":  func(ctx context.Context) (any, error) { return client.State(ctx) },
		"peers.json":  func(ctx context.Context) (any, error) { return client.Peers(ctx) },
		"events.json": func(ctx context.Context) (any, error) { return client.Events(ctx) },
		"check.json":  func(ctx context.Context) (any, error) { return f.report(ctx, false) },
	}
	file = cmp.Or(file, s.Name+".tar.gz")
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	names, err := dump.Write(ctx, out, s)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return a.Print(dumped{file, names})
}

// programLimit bounds the time of one program.
const programLimit = 10 * time.Second

// runProgram runs a program and returns its output, also that of one that fails.
func runProgram(ctx context.Context, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil && complaint.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return out, err
}
