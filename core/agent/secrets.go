package agent

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/internal/files"
)

// secretFileMode lets only root read a secret. An operator's file may be writable for root.
const secretFileMode = 0o400

// FileSecrets keeps each secret in its own file in Dir, next to the state file.
type FileSecrets struct {
	Dir    string
	Random io.Reader // crypto/rand's Reader in production
	// KeyFile is the file of [dataplane.WireGuardKey], in base64 as wg genkey prints
	// it. Other programs know it (interop 1.3: WIREGUARD_KEY_FILE). "": a file in Dir.
	KeyFile string
}

var _ driver.Secrets = FileSecrets{}

// Secret implements [driver.Secrets]. It refuses a damaged file and a file that
// other users may have read. Only the operator replaces such a file: peers lose
// this node until they have learnt its new secret.
func (s FileSecrets) Secret(name dataplane.SecretName) (dataplane.Secret, error) {
	if !name.Valid() {
		return dataplane.Secret{}, fmt.Errorf("secret %q: not a name", name)
	}
	f := secretFile{filepath.Join(s.Dir, string(name)+".secret"), false}
	if name == dataplane.WireGuardKey && s.KeyFile != "" {
		f = secretFile{s.KeyFile, true}
	}
	secret, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return f.draw(s.Random)
	}
	return secret, err
}

// secretFile is the file of a secret, as raw bytes or in base64.
type secretFile struct {
	path   string
	base64 bool
}

// maxSecretFile is more than a secret's size in either form, with a line's end.
const maxSecretFile = 64

func (f secretFile) read() (dataplane.Secret, error) {
	path := f.path
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // does not wait for a pipe's writer
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return dataplane.Secret{}, fmt.Errorf("secret file %s has mode %v, so others may have read it: "+
			"remove it and let the daemon draw another, or set mode %04o if you know that no other user did",
			path, mode, secretFileMode)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecretFile))
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	secret, err := f.decode(data)
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("secret file %s is damaged (%w): "+
			"restore it from a backup, or remove it and let the daemon draw another", path, err)
	}
	return secret, nil
}

func (f secretFile) decode(data []byte) (dataplane.Secret, error) {
	if f.base64 {
		return dataplane.ParseSecret(strings.TrimSpace(string(data)))
	}
	return dataplane.SecretOf(data)
}

func (f secretFile) encode(secret dataplane.Secret) []byte {
	if f.base64 {
		return []byte(base64.StdEncoding.EncodeToString(secret.Bytes()))
	}
	return secret.Bytes()
}

// draw makes a secret and writes its file before it returns the secret.
func (f secretFile) draw(random io.Reader) (dataplane.Secret, error) {
	path := f.path
	secret, err := dataplane.DrawSecret(random)
	if err != nil {
		return dataplane.Secret{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return dataplane.Secret{}, fmt.Errorf("keep secret %s: %w; make the directory writable for the daemon", path, err)
	}
	if err := files.Replace(path, f.encode(secret), secretFileMode); err != nil {
		return dataplane.Secret{}, fmt.Errorf("keep secret %s: %w; make the directory writable for the daemon", path, err)
	}
	return secret, nil
}
