package tlsfiles

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestErrors checks that an error names the flag and the file.
func TestErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]Files{
		"": {},
		"--x-keyfile: missing, though --x-certfile is given":                    {Cert: "/missing/c"},
		"--x-certfile: missing, though --x-keyfile is given":                    {Key: "/missing/k"},
		"--x-certfile, --x-keyfile: open /missing/c: no such file or directory": {Cert: "/missing/c", Key: "/missing/k"},
		"--x-cafile: open /missing/ca: no such file or directory":               {CA: "/missing/ca"},
		"--x-certfile, --x-keyfile: read " + pipe + ": it is no regular file":   {Cert: empty, Key: pipe},
		"--x-cafile: read " + pipe + ": it is no regular file":                  {CA: pipe},
		"--x-cafile: " + empty + " holds no certificate in PEM form":            {CA: empty},
	} {
		f.Flags = "x"
		cfg, err := f.Client()
		switch {
		case want == "" && (err != nil || cfg().RootCAs != nil || cfg().GetClientCertificate != nil):
			t.Errorf("no files: %v", err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%+v: error %v, want %s", f, err, want)
		}
	}
}
