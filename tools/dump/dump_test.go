package dump

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flanneld/flannel/tools/dump/dumptest"
)

// host makes a host on which one credential is in many places, and returns what a dump
// of it holds.
func host(t *testing.T, secret string) map[string]string {
	t.Helper()
	root := t.TempDir()
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	conf := `{"Network":"10.5.0.0/16","Backend":{"Type":"ipsec","UDPEncap":true,"PSK":` + string(quoted) + `},` +
		`"Formerly":[{"Type":"ipsec","PSK":` + string(quoted) + `}],"Extra":` + string(quoted) + `}`
	state, err := json.Marshal(map[string]any{
		"Version": 1, "Snapshot": map[string]any{"Config": map[string]any{"Data": []byte(conf)}},
		"Links": []string{"flannel.1"}, "Networks": []string{"10.5.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"run/flannel/subnet.env": "FLANNEL_MTU=1450\n",
		"run/flannel/wgkey":      secret + "\n",
		"var/lib/flannel/state":  string(state),
		"proc/7/cmdline": "flanneld\x00--etcd-password=" + secret + "\x00--etcd-password\x00" + secret +
			"\x00-v=2\x00",
		"proc/7/environ": "FLANNELD_ETCD_PASSWORD=" + secret +
			"\x00HOME=/\x00FLANNELD_IP_MASQ=true\x00",
		"proc/sys/net/ipv4/ip_forward":         "1\n",
		"proc/sys/net/ipv4/tcp_fastopen_key":   "0123-4567\n",
		"proc/sys/net/ipv6/conf/stable_secret": "fd00::1\n",
		"proc/modules":                         "vxlan 1 0 - Live 0x0\n",
		"proc/cmdline":                         "quiet\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text),
			0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	_, err = Write(t.Context(), &out, Sources{
		Name: "dump", Now: time.Unix(1, 0), Root: root, SubnetFile: "/run/flannel/subnet.env", Daemons: []int{7},
		StateFiles: []string{"/var/lib/flannel/state"}, KeyFiles: []string{"/run/flannel/wgkey"},
		Credentials: []string{secret},
		Run: func(_ context.Context, argv ...string) ([]byte, error) {
			if argv[0] == "nft" {
				return nil, errors.New("no nft; " + secret)
			}
			return []byte("output of " + argv[0] + "; key " + secret + "; end\n" +
				hex.EncodeToString([]byte(secret)) + " " + base64.StdEncoding.EncodeToString([]byte(secret))), nil
		},
		Ask: map[string]func(context.Context) (any, error){
			"status.json": func(context.Context) (any, error) {
				return map[string]string{"Why": "refused " + secret}, nil
			},
			"diff.json": func(context.Context) (any, error) { return nil, errors.New("no daemon") },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dumptest.Files(t, &out)
}

func TestDump(t *testing.T) {
	const secret = "c2VjcmV0IGtleSBvZiB0aGlzIGhvc3QuLi4uLi4uLiE="
	files := host(t, secret)
	for name, want := range map[string]string{
		"ip/routes.txt":                           "output of ip; key REDACTED; end",
		"files/run/flannel/subnet.env":            "FLANNEL_MTU=1450",
		"files/var/lib/flannel/state.marks.txt":   "links [flannel.1]\nnetworks [10.5.0.0/16]",
		"files/var/lib/flannel/state.config.json": `"UDPEncap": true`,
		"processes/7.txt": "flanneld\n--etcd-password=REDACTED\n--etcd-password\n" +
			"REDACTED\n-v=2\nFLANNELD_ETCD_PASSWORD=REDACTED\nFLANNELD_IP_MASQ=true\n",
		"sysctls.txt": "net/ipv4/ip_forward = 1\n",
		"status.json": "refused REDACTED",
		"missing.txt": "diff.json: no daemon",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s holds\n%s\nwant\n%s", name, files[name], want)
		}
	}
	if strings.Contains(files["sysctls.txt"], "4567") || strings.Contains(files["sysctls.txt"], "fd00") {
		t.Errorf("settings with keys:\n%s", files["sysctls.txt"])
	}
}

func TestPatterns(t *testing.T) {
	for text, want := range map[string]string{
		`I1122 flags: --etcd-password="hunter2" -v=2`:   `I1122 flags: --etcd-password="REDACTED" -v=2`,
		`etcd at https://root:hunter2@a:1 is away`:      `etcd at https://REDACTED@a:1 is away`,
		`curl -H "Authorization: Bearer abcdef" x`:      `curl -H "Authorization: Bearer REDACTED" x`,
		`{"PSK":"abc","Mode":"auto"}`:                   `{"PSK":"REDACTED","Mode":"auto"}`,
		`10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink`: `10.5.2.0/24 via 10.5.2.0 dev flannel.1 onlink`,
	} {
		if got := string(new(Redactor).Text([]byte(text))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// FuzzDumpTellsNoSecret puts a credential into every place where one may be, and looks
// for parts of it in every file of the dump.
func FuzzDumpTellsNoSecret(f *testing.F) {
	for _, secret := range []string{
		"correct horse battery staple", "c2VjcmV0IGtleSBvZiB0aGlzIGhvc3QuLi4uLi4uLiE=", "tr0ub4dor&3<>",
		`qu"ote\back`, "p@ss:w/rd?#x",
		"aaaaaaaaaaaaaaaa", "0123456789abcdef0123456789abcdef", "ключ-от-сети",
	} {
		f.Add(secret)
	}
	harmless := map[string]bool{}
	f.Fuzz(func(t *testing.T, secret string) {
		if len(secret) < window || strings.ContainsAny(secret, "\x00\n") ||
			strings.TrimSpace(secret) != secret || strings.HasPrefix(secret, "-") {
			t.Skip("no credential has this form")
		}
		if !json.Valid([]byte(`"`+secret+`"`)) && strings.ToValidUTF8(secret, "") != secret {
			t.Skip("not text")
		}
		if len(harmless) == 0 { // words that a dump holds anyway
			for _, text := range host(t, "\x01\x02\x03\x04\x05\x06\x07\x08") {
				for i := range len(text) - min(len(text), window-1) {
					harmless[text[i:i+window]] = true
				}
			}
		}
		for name, text := range host(t, secret) {
			for i := range len(secret) - window + 1 {
				part := secret[i : i+window]
				if strings.Contains(text, part) && !harmless[part] && !strings.Contains("REDACTEDREDACTED", part) {
					t.Fatalf("%s holds %q of %q:\n%s", name, part, secret, text)
				}
			}
		}
	})
}

// FuzzTextTellsNoSecret puts a known credential between two texts, in every form.
func FuzzTextTellsNoSecret(f *testing.F) {
	f.Add("correct horse battery staple", "before ", " after")
	f.Add("aaaaaaaaaaaa", "aaaa", "aaaa://aa@")
	f.Add("c2VjcmV0IGtleSBvZiB0aGlzIGhvc3QuLi4uLi4uLiE=", `{"psk":"`, `"}`)
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < window || strings.TrimSpace(secret) != secret || len(before)+len(after)+len(secret) > 1000 {
			t.Skip("no credential")
		}
		var r Redactor
		r.Add([]byte(secret))
		for _, form := range []string{
			secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
		} {
			got := string(r.Text([]byte(before + form + after)))
			for i := range len(form) - window + 1 {
				part := form[i : i+window]
				if strings.Contains(got, part) && !strings.Contains("REDACTEDREDACTED", part) {
					t.Fatalf("%q of %q is in %q", part, form, got)
				}
			}
		}
	})
}

// TestFlagsOfProcesses passes credentials to a daemon in the ways that package flag allows.
func TestFlagsOfProcesses(t *testing.T) {
	for _, words := range []string{
		"--etcd-password -credential", "-etcd-password --credential=1", "--ip-masq --etcd-password credential -v=2",
		"--etcd-password=-credential", "--etcd-endpoints -http://user:credential@h", "--etcd-password credential --ip-masq",
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "proc/7")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		args := "flanneld\x00" + strings.ReplaceAll(words, " ", "\x00") + "\x00"
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(args), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &archive{Sources: Sources{Root: root, Daemons: []int{7}}, files: map[string][]byte{}}
		a.readProcesses()
		text := string(a.files["processes/7.txt"])
		if strings.Contains(text, "credential") || strings.Count(text, "\n") != 1+len(strings.Fields(words)) {
			t.Errorf("%s: %q", words, text)
		}
	}
}

// TestAsksAtOnce asks a daemon that hangs: the questions wait together, and the archive says
// what was not learnt.
func TestAsksAtOnce(t *testing.T) {
	const questions = 6
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var asked atomic.Int32
	all := make(chan struct{})
	ask := func(ctx context.Context) (any, error) {
		if asked.Add(1) == questions {
			close(all)
		}
		select {
		case <-all:
			return nil, errors.New("its process hangs")
		case <-ctx.Done():
			return nil, errors.New("the other questions have not been asked")
		}
	}
	s := Sources{Name: "d", Root: t.TempDir(), Ask: map[string]func(context.Context) (any, error){},
		Run: func(context.Context, ...string) ([]byte, error) { return nil, nil }}
	for i := range questions {
		s.Ask[fmt.Sprintf("%d.json", i)] = ask
	}
	var out bytes.Buffer
	if _, err := Write(ctx, &out, s); err != nil {
		t.Fatal(err)
	}
	missing := dumptest.Files(t, &out)["missing.txt"]
	if strings.Count(missing, ".json: its process hangs") != questions {
		t.Error(missing)
	}
}
