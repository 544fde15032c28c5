package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
	"github.com/flanneld/flannel/internal/pause"
)

// crowd is the number of nodes of a large cluster.
const crowd = 5000

// asServer is the variable that turns the test binary into the API server of the
// benchmarks, so that they measure the store alone.
const asServer = "TEST_BINARY_IS_API_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		serveCrowd()
		return
	}
	os.Exit(m.Run())
}

// serveCrowd serves until the process is killed. It prints its address.
func serveCrowd() {
	fmt.Println(httptest.NewServer(kubetest.Crowd(crowd, os.Getenv(asServer) == "older")).URL)
	select {}
}

// crowded starts such a server and returns its address.
func crowded(b *testing.B, kind string) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"="+kind)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

func ask(b *testing.B, url string) {
	r, err := http.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	r.Body.Close()
}

func openCrowd(b *testing.B, url string) *Store {
	path := filepath.Join(b.TempDir(), "net-conf.json")
	if err := os.WriteFile(path, []byte(`{"Network":"10.64.0.0/10","Backend":{"Type":"vxlan"}}`), 0o600); err != nil {
		b.Fatal(err)
	}
	s, err := Open(context.Background(), Options{URL: url, Node: kubetest.Realistic(0).Name, ConfigFile: path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// until waits for changes of the view until a condition holds, and counts them.
func until(s *Store, pleases func() bool) (changes int) {
	for !pleases() {
		<-s.Changed()
		changes++
	}
	return changes
}

// usage returns the CPU time of this process so far.
func usage(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak returns the largest resident set of this process since the last call.
func peak(b *testing.B) float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}

// BenchmarkStart measures the time from the start to all leases of 5,000 nodes.
func BenchmarkStart(b *testing.B) {
	for _, kind := range []string{"streaming", "older"} {
		b.Run(kind, func(b *testing.B) {
			url := crowded(b, kind)
			peak(b)
			began := usage(b)
			for b.Loop() {
				s := openCrowd(b, url)
				until(s, func() bool { v := s.View(); return v.Synced && len(v.Snapshot.Leases) == crowd })
				s.Close()
			}
			b.ReportMetric(peak(b), "MB-peak")
			b.ReportMetric(float64((usage(b)-began).Milliseconds())/float64(b.N), "ms-cpu/op")
		})
	}
}

// BenchmarkRoll changes all nodes' annotations, one after the other.
func BenchmarkRoll(b *testing.B) {
	url := crowded(b, "streaming")
	s := openCrowd(b, url)
	until(s, func() bool { return s.View().Synced })
	began, wakes := usage(b), 0
	for b.Loop() {
		before := lastData(s)
		ask(b, url+"/do/roll")
		wakes += until(s, func() bool { return lastData(s) != before })
	}
	b.ReportMetric(float64(wakes)/float64(b.N), "wakes/op")
	b.ReportMetric(float64((usage(b)-began).Microseconds())/float64(b.N*crowd), "us-cpu/node")
}

// lastData is the data of the last node.
func lastData(s *Store) string {
	for _, l := range s.View().Snapshot.Leases {
		if l.Key.V4.String() == kubetest.Realistic(crowd-1).Spec.PodCIDR {
			return string(l.Attrs.BackendData)
		}
	}
	return ""
}

// BenchmarkHeartbeatsOfAnHour has every node write its status every five
// minutes, as kubelets do. It must wake no reader.
func BenchmarkHeartbeatsOfAnHour(b *testing.B) {
	url := crowded(b, "streaming")
	s := openCrowd(b, url)
	until(s, func() bool { return s.View().Synced })
	drain(s)
	began, wakes := usage(b), 0
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-s.Changed():
				wakes++
			case <-stop:
				return
			}
		}
	}()
	for b.Loop() {
		for range 12 {
			ask(b, url+"/do/heartbeat")
		}
	}
	ask(b, url+"/do/last") // the store sees it after all heartbeats
	for len(s.View().Snapshot.Leases) == crowd {
		pause.For(context.Background(), time.Millisecond)
	}
	close(stop)
	<-done
	if wakes > 1 {
		b.Errorf("%d wakes for heartbeats", wakes-1)
	}
	b.ReportMetric(float64((usage(b)-began).Milliseconds())/float64(b.N), "ms-cpu/op")
}

// BenchmarkDecode compares ways to read a node.
func BenchmarkDecode(b *testing.B) {
	names, err := nodelease.ParsePrefix(nodelease.DefaultPrefix)
	if err != nil {
		b.Fatal(err)
	}
	n := kubetest.Realistic(7)
	n.ResourceVersion, n.UID = "12345", "b0a4c1de-0000-0000-0000-000000000000"
	proto, err := n.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(n)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("slim-protobuf", func(b *testing.B) {
		b.SetBytes(int64(len(proto)))
		b.ReportAllocs()
		for b.Loop() {
			if it, err := decodeNode(proto, names); err != nil || it.node.PodCIDRs == "" {
				b.Fatal(err)
			}
		}
	})
	b.Run("slim-json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			var slim struct {
				Metadata struct {
					Name, UID, ResourceVersion string
					Annotations                map[string]string
				}
				Spec struct {
					PodCIDR  string
					PodCIDRs []string
				}
			}
			if err := json.Unmarshal(text, &slim); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole-protobuf", func(b *testing.B) {
		b.SetBytes(int64(len(proto)))
		b.ReportAllocs()
		for b.Loop() {
			var whole corev1.Node
			if err := whole.Unmarshal(proto); err != nil {
				b.Fatal(err)
			}
		}
	})
}
