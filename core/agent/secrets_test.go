package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
)

func TestSecretOutlivesRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flannel")
	first, err := FileSecrets{Dir: dir, Random: rand.Reader}.Secret("tunnel-key")
	if err != nil {
		t.Fatal(err)
	}
	again, err := FileSecrets{Dir: dir, Random: rand.Reader}.Secret("tunnel-key")
	if err != nil || again != first {
		t.Errorf("after a restart: the same %t, %v", again == first, err)
	}
	other, err := FileSecrets{Dir: dir, Random: rand.Reader}.Secret("other")
	if err != nil || other == first {
		t.Errorf("another name: the same %t, %v", other == first, err)
	}
	info, err := os.Stat(filepath.Join(dir, "tunnel-key.secret"))
	if err != nil || info.Mode() != 0o400 || info.Size() != dataplane.SecretSize {
		t.Errorf("file %v, %v", info, err)
	}
}

// TestSecretErrors holds that each error names the file and the remedy, and never the secret.
func TestSecretErrors(t *testing.T) {
	plain := strings.Repeat("s3cr", 8)
	for name, c := range map[string]struct {
		spoil func(path string) error
		want  []string
	}{
		"readable by others": {func(path string) error { return os.Chmod(path, 0o644) },
			[]string{"has mode -rw-r--r--", "remove it", "0400"}},
		"truncated": {func(path string) error { return rewrite(path, plain[:7]) },
			[]string{"is damaged", "restore it from a backup"}},
		"too long": {func(path string) error { return rewrite(path, plain+"x") },
			[]string{"is damaged", "remove it"}},
		"empty": {func(path string) error { return rewrite(path, "") }, []string{"is damaged"}},
		"pipe": {func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
			[]string{"has mode prw-------", "remove it"}},
		"no directory": {func(path string) error {
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Dir(path), nil, 0o600)
		}, []string{"not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "flannel")
			s := FileSecrets{Dir: dir, Random: strings.NewReader(plain)}
			if _, err := s.Secret("key"); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "key.secret")
			if err := c.spoil(path); err != nil {
				t.Fatal(err)
			}
			s.Random = strings.NewReader(plain)
			_, err := s.Secret("key")
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "s3cr") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

// TestSecretOfUnwritableDirectory uses a file in the directory's place, which stops root too.
func TestSecretOfUnwritableDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := FileSecrets{Dir: filepath.Join(dir, "flannel"), Random: rand.Reader}.Secret("key")
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v", err)
	}
}

// TestKeyFile holds the form that other programs know: base64, with mode 0400
// from the first moment on (interop 6.5). A key of wg genkey is taken as it is.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "wgkey")
	s := FileSecrets{Dir: t.TempDir(), Random: strings.NewReader(strings.Repeat("s3cr", 8)), KeyFile: path}
	first, err := s.Secret(dataplane.WireGuardKey)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Secret(dataplane.WireGuardKey)
	if err != nil || again != first {
		t.Errorf("the second time: the same %t, %v", again == first, err)
	}
	const text = "czNjcnMzY3JzM2NyczNjcnMzY3JzM2NyczNjcnMzY3I="
	data, err := os.ReadFile(path)
	if err != nil || string(data) != text {
		t.Errorf("file %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o400 {
		t.Errorf("file %v, %v", info, err)
	}
	if err := rewrite(path, text+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Secret(dataplane.WireGuardKey); err != nil || again != first {
		t.Errorf("written by wg genkey: the same %t, %v", again == first, err)
	}
	if err := rewrite(path, "czNjcnMzY3"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Secret(dataplane.WireGuardKey); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestSecretNames(t *testing.T) {
	s := FileSecrets{Dir: t.TempDir(), Random: rand.Reader}
	if _, err := s.Secret("../x"); err == nil {
		t.Error("a name that leaves the directory was accepted")
	}
	if _, err := (FileSecrets{Dir: t.TempDir(), Random: strings.NewReader("short")}).Secret("key"); err == nil {
		t.Error("a random source that ends early was accepted")
	}
}

// TestSecretIsNeverPrinted tries the ways in which a value reaches a log, a status or a report.
func TestSecretIsNeverPrinted(t *testing.T) {
	plain := strings.Repeat("s3cr", 8)
	secret, err := dataplane.DrawSecret(strings.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"key": secret, "pointer": &secret})
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		out += fmt.Sprintf(verb, secret) + fmt.Sprintf(verb, &secret) +
			fmt.Sprintf(verb, struct{ Key dataplane.Secret }{secret})
	}
	for _, leak := range []string{"s3cr", "73336372", "73336372"[:4], "czNjc", "115 51 99 114"} {
		if strings.Contains(strings.ToLower(out), strings.ToLower(leak)) {
			t.Errorf("%q in %s", leak, out)
		}
	}
	if !bytes.Equal(secret.Bytes(), []byte(plain)) {
		t.Error("Bytes returns something else")
	}
}

func rewrite(path, text string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o400)
}
