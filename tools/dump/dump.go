package dump

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/daemonflags"
)

// Sources say where the parts of an archive come from.
type Sources struct {
	Name string // of the folder in the archive
	Now  time.Time
	Root string // of /proc and the other files; "" is the host's own

	SubnetFile           string
	StateFiles, KeyFiles []string // KeyFiles may be patterns
	// Daemons are the ids of the running daemons.
	Daemons []int
	// Credentials are those that this program itself was given.
	Credentials []string

	// Run runs a program and returns its output.
	Run func(ctx context.Context, argv ...string) ([]byte, error)
	// Ask returns further files, by name: the answers of the daemon, the findings of
	// check.
	Ask map[string]func(context.Context) (any, error)
}

// asksAtOnce is the number of answers that are awaited at the same time.
const asksAtOnce = 64

// commands are the programs to run, by the name of the file for their output. A host
// lacks some of them.
var commands = map[string][]string{
	"ip/links.txt":            {"ip", "-d", "-s", "link"},
	"ip/addresses.txt":        {"ip", "-d", "address"},
	"ip/routes.txt":           {"ip", "-d", "route", "show", "table", "all"},
	"ip/routes-v6.txt":        {"ip", "-d", "-6", "route", "show", "table", "all"},
	"ip/rules.txt":            {"ip", "rule"},
	"ip/rules-v6.txt":         {"ip", "-6", "rule"},
	"ip/neighbours.txt":       {"ip", "neighbour"},
	"ip/xfrm-policies.txt":    {"ip", "xfrm", "policy"},
	"bridge/fdb.txt":          {"bridge", "fdb"},
	"bridge/links.txt":        {"bridge", "-d", "link"},
	"firewall/nft.txt":        {"nft", "list", "ruleset"},
	"firewall/iptables.txt":   {"iptables-save", "-c"},
	"firewall/ip6tables.txt":  {"ip6tables-save", "-c"},
	"firewall/legacy.txt":     {"iptables-legacy-save", "-c"},
	"firewall/legacy-v6.txt":  {"ip6tables-legacy-save", "-c"},
	"sockets.txt":             {"ss", "-anp"},
	"wireguard.txt":           {"wg", "show"},
	"log.txt":                 {"journalctl", "--no-pager", "-n", "5000", "-u", "flanneld"},
	"versions/iptables.txt":   {"iptables", "--version"},
	"versions/nft.txt":        {"nft", "--version"},
	"versions/flanneld.txt":   {"flanneld", "--version"},
	"versions/flannelctl.txt": {os.Args[0], "version"},
	"versions/kernel-config.txt": {"sh", "-c", "zgrep -hE 'VXLAN|WIREGUARD|IPIP|XFRM|BRIDGE|NF_TABLES|IPTABLES' " +
		"/proc/config.gz /boot/config-$(uname -r)"},
}

// plainFiles are copied as they are, apart from credentials.
var plainFiles = []string{
	"/etc/os-release", "/proc/version", "/proc/modules", "/proc/net/snmp", "/proc/net/netstat",
	"/proc/net/softnet_stat", "/proc/cmdline",
}

// archive collects the files of one dump.
type archive struct {
	Sources
	Redactor
	files  map[string][]byte
	missed []string // what could not be learnt
}

// Write writes a dump as a compressed tar archive. It returns the names of its files.
func Write(ctx context.Context, w io.Writer, s Sources) ([]string, error) {
	a := &archive{Sources: s, files: map[string][]byte{}}
	a.learnCredentials()
	a.readFiles()
	a.readProcesses()
	a.readSettings()
	for name, argv := range commands {
		out, err := a.Run(ctx, argv...)
		if err != nil {
			a.miss(strings.Join(argv, " "), err)
		}
		if len(out) > 0 {
			a.files[name] = out
		}
	}
	if err := a.askAll(ctx); err != nil {
		return nil, err
	}
	slices.Sort(a.missed)
	a.files["missing.txt"] = []byte(strings.Join(a.missed, "\n") + "\n")
	return a.pack(w)
}

// askAll asks all at once: each question to a daemon that hangs takes its whole time.
func (a *archive) askAll(ctx context.Context) error {
	type answer struct {
		name   string
		answer any
		err    error
	}
	answers := make(chan answer)
	turns := make(chan struct{}, asksAtOnce)
	for name, ask := range a.Ask {
		go func() {
			turns <- struct{}{}
			told, err := ask(ctx)
			<-turns
			answers <- answer{name, told, err}
		}()
	}
	var errs []error
	for range a.Ask {
		got := <-answers
		if got.err != nil {
			a.miss(got.name, got.err)
			continue
		}
		text, err := json.MarshalIndent(got.answer, "", "  ")
		errs = append(errs, err)
		a.files[got.name] = text
	}
	return errors.Join(errs...)
}

// miss records that something could not be read.
func (a *archive) miss(what string, err error) {
	a.missed = append(a.missed, fmt.Sprintf("%s: %v", what, err))
}

func (a *archive) at(path string) string { return filepath.Join("/", a.Root, path) }

// learnCredentials collects the credentials, which must not be in the archive. It runs
// before everything else, since any file may hold one.
func (a *archive) learnCredentials() {
	for _, c := range a.Credentials {
		a.Add([]byte(c))
	}
	for _, pattern := range a.KeyFiles {
		paths, _ := filepath.Glob(a.at(pattern)) // the pattern is well formed
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				a.miss(path, err)
			}
			a.Add(data)
		}
	}
}

// readFiles copies files, and from the state file only the marks and the config.
func (a *archive) readFiles() {
	for _, path := range append(slices.Clone(plainFiles), a.SubnetFile) {
		data, err := os.ReadFile(a.at(path))
		if err != nil {
			a.miss(path, err)
			continue
		}
		a.files["files"+path] = data
	}
	for _, path := range a.StateFiles {
		data, err := os.ReadFile(a.at(path))
		if err != nil {
			a.miss(path, err)
			continue
		}
		last, err := node.SavedMarks(data)
		if err != nil {
			a.miss(path, err)
			continue
		}
		a.files["files"+path+".config.json"] = a.Config(last.Config)
		a.files["files"+path+".marks.txt"] = fmt.Appendf(nil, "subnet %s\nlinks %v\nnetworks %v\n", last.Own,
			last.Links, last.Networks)
	}
}

// readProcesses takes the flags and the environment of the daemons, with no
// credential in them.
func (a *archive) readProcesses() {
	for _, id := range a.Daemons {
		dir := fmt.Sprintf("/proc/%d", id)
		var text strings.Builder
		args, err := os.ReadFile(a.at(dir + "/cmdline"))
		if err != nil {
			a.miss(dir, err)
			continue
		}
		name := "" // of a flag with a credential, whose value is the next word
		for word := range strings.SplitSeq(strings.TrimRight(string(args), "\x00"), "\x00") {
			flag, value, joined := strings.Cut(word, "=")
			bare := strings.TrimLeft(flag, "-")
			switch {
			case name != "": // also if it begins with a hyphen
				word = a.hide(name, word)
				name = ""
			case bare != flag && joined:
				word = flag + "=" + a.hide(bare, value)
			case bare != flag && daemonflags.HoldsCredential(bare):
				name = bare
			}
			fmt.Fprintln(&text, word)
		}
		environment, err := os.ReadFile(a.at(dir + "/environ"))
		if err != nil {
			a.miss(dir, err)
		}
		for variable := range strings.SplitSeq(string(environment), "\x00") {
			key, value, _ := strings.Cut(variable, "=")
			if bare, ours := strings.CutPrefix(key, "FLANNELD_"); ours {
				flag := strings.ToLower(strings.ReplaceAll(bare, "_", "-"))
				fmt.Fprintf(&text, "%s=%s\n", key, a.hide(flag, value))
			}
		}
		a.files[fmt.Sprintf("processes/%d.txt", id)] = []byte(text.String())
	}
}

// hide returns the value of a flag without credentials, and adds those to the known ones.
func (a *archive) hide(flag, value string) string {
	shown := daemonflags.Harmless(flag, value)
	if shown == value {
		return value
	}
	if flag == "etcd-password" {
		a.Add([]byte(value))
	}
	for part := range strings.SplitSeq(value, "://") {
		if user, _, ok := strings.Cut(part, "@"); ok {
			_, password, _ := strings.Cut(user, ":")
			a.Add([]byte(password))
		}
	}
	return shown
}

// readSettings takes the kernel's settings of networks. Some of them are keys.
func (a *archive) readSettings() {
	var text strings.Builder
	root := a.at("/proc/sys/net")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		base := filepath.Base(path)
		if err != nil || d.IsDir() || strings.Contains(base, "key") || strings.Contains(base, "secret") {
			return nil // a device may have gone
		}
		data, err := os.ReadFile(path)
		if err == nil {
			name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
			fmt.Fprintf(&text, "net/%s = %s\n", name, strings.TrimSpace(string(data)))
		}
		return nil
	})
	if err != nil {
		a.miss(root, err)
	}
	a.files["sysctls.txt"] = []byte(text.String())
}

// pack writes the files, sorted, without credentials.
func (a *archive) pack(w io.Writer) ([]string, error) {
	compressed := gzip.NewWriter(w)
	out := tar.NewWriter(compressed)
	var names []string
	for name := range a.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := a.Text(a.files[name])
		header := &tar.Header{Name: filepath.Join(a.Name, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.Now}
		if err := out.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := out.Write(text); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return names, compressed.Close()
}
