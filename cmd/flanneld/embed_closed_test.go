package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/daemonflags"
)

// unprivileged is a user without rights.
const unprivileged = 65534

// ownCertificate writes a certificate for an address, which vouches for itself, and its key.
func ownCertificate(t *testing.T, of netip.Addr) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{of.AsSlice()},
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert.pem", "CERTIFICATE", cert), write("key.pem", "EC PRIVATE KEY", secret)
}

// listeners returns the TCP ports at which a process listens.
func listeners(t *testing.T, pid int) map[int]bool {
	t.Helper()
	own := map[string]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("open files: %v, %v", files, err)
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	ports := map[int]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const listen = "0A"
			words := strings.Fields(line) // sl local_address rem_address st … inode
			if words[3] != listen || !own[words[9]] {
				continue
			}
			_, hex, _ := strings.Cut(words[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			ports[int(port)] = true
		}
	}
	return ports
}

// connectAs opens a unix socket as another user.
func connectAs(t *testing.T, user int, socket string) error {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// The kernel asks for the rights of the thread, and forgets its capabilities with the user.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, _ := unix.SetfsuidRetUid(user)
	defer unix.SetfsuidRetUid(was)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
}

// The embedded etcd listens at a socket of its owner, and at no port.
func TestEmbeddedEtcdIsClosedToOthers(t *testing.T) {
	p, dir := oneHost(t, nil)
	p.await("/readyz", "flanneld is ready")
	if ports := listeners(t, p.cmd.Process.Pid); len(ports) != 1 { // /readyz
		t.Errorf("flanneld listens at the ports %v, want that of its health alone", ports)
	}
	socket := filepath.Join(dir, "etcd", "client.sock")
	for file, want := range map[string]fs.FileMode{
		filepath.Dir(socket): fs.ModeDir | 0o700, socket: fs.ModeSocket | 0o600,
	} {
		if fi, err := os.Stat(file); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want mode %v", file, fi.Mode(), err, want)
		}
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	key := daemonflags.EtcdPrefix + "/config"
	if got, err := etcd.Get(t.Context(), key); err != nil || len(got.Kvs) != 1 {
		t.Errorf("its owner reads %v, %v", got, err)
	}

	if os.Getuid() != 0 {
		t.Skip("only root can act for another user")
	}
	for _, open := range []string{dir, filepath.Dir(dir)} { // so that the data folder decides
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := connectAs(t, 0, socket); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := connectAs(t, unprivileged, socket); !errors.Is(err, unix.EACCES) {
		t.Errorf("another user, with the folder closed: %v, want EACCES", err)
	}
	if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := connectAs(t, unprivileged, socket); !errors.Is(err, unix.EACCES) {
		t.Errorf("another user, with the folder open: %v, want EACCES", err)
	}
}

// A setup that the embedded etcd cannot serve ends flanneld with the way out.
func TestEmbeddedEtcdExits(t *testing.T) {
	long := "/" + strings.Repeat("x", 96)
	for says, args := range map[string][]string{
		"--embed-etcd no longer listens at an address without certificates": {
			"--embed-etcd=" + t.TempDir(), "--etcd-endpoints=http://127.0.0.1:0"},
		"--embed-etcd: the socket " + long + "/client.sock has a path of 109 bytes, and the kernel allows 107: choose a " +
			"data directory whose path is shorter by 2": {"--embed-etcd=" + long},
	} {
		out, status := runToEnd(t, nil, args...)
		if status != 1 || !strings.HasPrefix(lastMessage(out), "exit status 1: "+says) {
			t.Errorf("status %d, want 1 and %q in\n%s", status, says, out)
		}
	}
}

// For other hosts the embedded etcd also listens at an address, where each client shows a certificate.
func TestEmbeddedEtcdWithCertificates(t *testing.T) {
	at := freeAddress(t)
	cert, key := ownCertificate(t, at.Addr())
	endpoint := "https://" + at.String()
	p, dir := oneHost(t, nil, "--etcd-endpoints="+endpoint, "--etcd-certfile="+cert, "--etcd-keyfile="+key,
		"--etcd-cafile="+cert)
	p.await("/readyz", "flanneld is ready")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for name, c := range map[string]struct {
		endpoint string
		secrets  *tls.Config
		says     string
	}{
		"without a certificate": {endpoint, &tls.Config{RootCAs: roots}, "certificate required"},
		"with a certificate":    {endpoint, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, ""},
		"at the socket":         {"unix://" + dir + "/etcd/client.sock", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			says := putAt(t, c.endpoint, c.secrets)
			if c.says == "" && says != "" || !strings.Contains(says, c.says) {
				t.Errorf("error %q, want %q", says, c.says)
			}
		})
	}
}

// putAt writes to an etcd, and returns the reason of a failure.
func putAt(t *testing.T, endpoint string, secrets *tls.Config) string {
	t.Helper()
	if secrets != nil { // gRPC tries again and again, and hides the reason
		conn, err := tls.Dial("tcp", strings.TrimPrefix(endpoint, "https://"), secrets)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
			return err.Error()
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return err.Error()
		}
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: secrets, DialTimeout: patience})
	if err != nil {
		return err.Error()
	}
	defer etcd.Close()
	if _, err := etcd.Put(t.Context(), "/a", "b"); err != nil {
		return err.Error()
	}
	return ""
}
