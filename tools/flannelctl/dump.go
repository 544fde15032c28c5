package flannelctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/control"
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
	var port uint16
	c := &cobra.Command{
		Use:   "dump [ADDRESS...]",
		Short: "Write an archive for a person who helps: tables, rules, status, log",
		Long: "dump writes one archive, for root alone, with what the kernel, the daemon and the files of this host say. " +
			"It shows no credential: not those in flanneld's flags, environment, config and key files, nor texts that " +
			"look like one. It works without a daemon, and says in missing.txt what it could not learn. It also holds " +
			"what the daemons at the health listeners ADDRESS, such as 10.0.0.3:8081, answer; with --port, those of all " +
			"nodes that the daemon of this host knows.",
		RunE: func(c *cobra.Command, args []string) error {
			client := daemon.Local(f.files.subnetFile)
			var peers control.Peers
			if port != 0 {
				var err error
				peers, err = client.Peers(c.Context())
				if err != nil {
					fmt.Fprintf(a.stderr, "flannelctl: the other nodes are not known: %v\n", err)
				}
			}
			return a.runDump(c.Context(), f, file, further(args, peers, port))
		},
	}
	a.defineDatastore(&f.datastore, c)
	flags := c.Flags()
	flags.StringVarP(&file, "file", "f", "", "the archive's `path` (default flannel-HOST-TIME.tar.gz, here)")
	f.files.define(flags)
	definePort(c, &port)
	return c
}

// pagesOf returns the pages to ask a daemon for, as files of the archive below a folder.
func pagesOf(folder string, client *daemon.Client) map[string]func(context.Context) (any, error) {
	return map[string]func(context.Context) (any, error){
		folder + "status.json": func(ctx context.Context) (any, error) { return client.Status(ctx) },
		folder + "diff.json":   func(ctx context.Context) (any, error) { return client.Diff(ctx) },
		folder + "state.json":  func(ctx context.Context) (any, error) { return client.State(ctx) },
		folder + "peers.json":  func(ctx context.Context) (any, error) { return client.Peers(ctx) },
		folder + "events.json": func(ctx context.Context) (any, error) { return client.Events(ctx) },
	}
}

func (a *app) runDump(ctx context.Context, f *checkFlags, file string, others []question) error {
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
	s.Ask = pagesOf("", daemon.Local(f.files.subnetFile))
	s.Ask["check.json"] = func(ctx context.Context) (any, error) { return f.report(ctx, false) }
	for _, q := range others {
		folder := "nodes/" + strings.NewReplacer("/", "-", ":", "-", "[", "", "]", "").Replace(q.from) + "/"
		maps.Copy(s.Ask, pagesOf(folder, q.client))
	}
	file = cmp.Or(file, s.Name+".tar.gz")
	var names []string
	err = writeNew(file, func(w io.Writer) (err error) {
		names, err = dump.Write(ctx, w, s)
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(dumped{file, names})
}
