package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// secretFileMode lets root alone read a secret.
const secretFileMode = 0o400

// FileSecrets keeps each secret in its own file in Dir, next to the state file.
type FileSecrets struct {
	Dir    string
	Random io.Reader // crypto/rand's Reader in production
}

var _ driver.Secrets = FileSecrets{}

// Secret implements [driver.Secrets]. It refuses a damaged file and a file that
// other users may have read. Only the operator replaces such a file: peers lose
// this node until they have learnt its new secret.
func (s FileSecrets) Secret(name dataplane.SecretName) (dataplane.Secret, error) {
	if !name.Valid() {
		return dataplane.Secret{}, fmt.Errorf("secret %q: not a name", name)
	}
	path := filepath.Join(s.Dir, string(name)+".secret")
	secret, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.draw(path)
	}
	return secret, err
}

func readSecret(path string) (dataplane.Secret, error) {
	file, err := os.Open(path)
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	if mode := info.Mode(); mode != secretFileMode {
		return dataplane.Secret{}, fmt.Errorf("secret file %s has mode %v, so others may have read it: "+
			"remove it and let the daemon draw another, or set mode %04o if you know that no other user did",
			path, mode, secretFileMode)
	}
	data, err := io.ReadAll(io.LimitReader(file, dataplane.SecretSize+1))
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("read secret: %w", err)
	}
	secret, err := dataplane.SecretOf(data)
	if err != nil {
		return dataplane.Secret{}, fmt.Errorf("secret file %s is damaged (%w): restore it from a backup, or remove it and "+
			"let the daemon draw another", path, err)
	}
	return secret, nil
}

// draw makes a secret and writes its file before it returns the secret.
func (s FileSecrets) draw(path string) (dataplane.Secret, error) {
	secret, err := dataplane.DrawSecret(s.Random)
	if err != nil {
		return dataplane.Secret{}, err
	}
	if err := os.MkdirAll(s.Dir, dirMode); err != nil {
		return dataplane.Secret{}, fmt.Errorf("keep secret %s: %w; make the directory writable for the daemon", path, err)
	}
	if err := renameio.WriteFile(path, secret.Bytes(), secretFileMode, renameio.IgnoreUmask()); err != nil {
		return dataplane.Secret{}, fmt.Errorf("keep secret %s: %w; make the directory writable for the daemon", path, err)
	}
	return secret, nil
}
