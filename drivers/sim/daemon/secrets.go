package daemon

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// diskSecrets implements [driver.Secrets] with a host's disk: each process
// reads the secrets that earlier ones drew.
type diskSecrets struct {
	host *kernel.Host
	kept map[dataplane.SecretName]dataplane.Secret
	fail error
}

// Secrets returns the secrets of the daemon, which outlive its processes.
func (d *Daemon) Secrets() driver.Secrets { return d.secrets }

// FailSecrets makes every request for a secret fail with an error; nil ends
// that.
func (d *Daemon) FailSecrets(err error) { d.secrets.fail = err }

// LoseSecret removes a secret from the disk. The next request draws another.
func (d *Daemon) LoseSecret(name dataplane.SecretName) { delete(d.secrets.kept, name) }

// Secret implements [driver.Secrets].
func (s *diskSecrets) Secret(name dataplane.SecretName) (dataplane.Secret, error) {
	if s.fail != nil {
		return dataplane.Secret{}, fmt.Errorf("secret %s: %w", name, s.fail)
	}
	if secret, ok := s.kept[name]; ok {
		return secret, nil
	}
	secret, err := dataplane.DrawSecret(s.random(name))
	if err != nil {
		return dataplane.Secret{}, err
	}
	s.host.World().Note(s.host.Name()+": secret drawn", string(name))
	s.kept[name] = secret
	return secret, nil
}

// random returns bytes that follow from the seed, the host and the name.
func (s *diskSecrets) random(name dataplane.SecretName) io.Reader {
	return wordReader(s.host.World().Rand(s.host.Name() + "/secret/" + string(name)).Uint64)
}

// wordReader reads the bytes of random words.
type wordReader func() uint64

func (next wordReader) Read(p []byte) (int, error) {
	for i := range p {
		if i%8 == 0 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], next())
			copy(p[i:], word[:])
		}
	}
	return len(p), nil
}
