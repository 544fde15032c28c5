package kernel

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
)

// capturePing records the uplink of a host while two pods exchange a ping.
func capturePing(t *testing.T) []byte {
	t.Helper()
	l := overlay(t, 1, 2)
	var file bytes.Buffer
	must(t, l.hosts[0].Wire("eth0").Capture(&file))
	for _, f := range cidr.Families {
		wantDelivered(t, l.ping(t, f, PingOptions{Size: 100}))
	}
	return file.Bytes()
}

func TestCaptureReadsBack(t *testing.T) {
	b := capturePing(t)
	if magic := binary.LittleEndian.Uint32(b); magic != pcapMagic {
		t.Fatalf("magic %x", magic)
	}
	b = b[24:]
	n := 0
	for ; len(b) >= 16; n++ {
		size := int(binary.LittleEndian.Uint32(b[8:]))
		_, packet, err := parseEther(b[16 : 16+size])
		must(t, err)
		h, payload, err := parseIP(packet)
		must(t, err)
		d, err := parseUDP(&h, payload)
		must(t, err)
		if vni, _, err := parseVXLAN(d.body); err != nil || vni != 1 {
			t.Errorf("record %d: vni %d, %v", n, vni, err)
		}
		b = b[16+size:]
	}
	if n != 4 || len(b) != 0 {
		t.Errorf("%d records and %d bytes, want 4 and none", n, len(b))
	}
}

// TestCaptureWithTcpdump lets tcpdump parse the packets and their checksums.
func TestCaptureWithTcpdump(t *testing.T) {
	tcpdump, err := exec.LookPath("tcpdump")
	if err != nil {
		t.Skip("tcpdump is not installed")
	}
	file := filepath.Join(t.TempDir(), "eth0.pcap")
	must(t, os.WriteFile(file, capturePing(t), 0o644))
	out, err := exec.Command(tcpdump, "-vv", "-n", "-e", "-r", file).CombinedOutput()
	if err != nil {
		t.Fatalf("tcpdump: %v\n%s", err, out)
	}
	text := string(out)
	// On port 8472 tcpdump expects OTV, whose header equals that of VXLAN.
	if got := strings.Count(text, "[udp sum ok] OTV, flags [I] (0x08), overlay 0, instance 1"); got != 4 {
		t.Errorf("%d tunnelled packets, want 4", got)
	}
	for _, want := range []string{
		"ICMP echo request", "ICMP echo reply", "ICMP6, echo request", "ICMP6, echo reply", "[icmp6 sum ok]",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("tcpdump does not say %q", want)
		}
	}
	for _, bad := range []string{"bad cksum", "wrong", "truncated", "[|"} {
		if strings.Contains(text, bad) {
			t.Errorf("tcpdump says %q", bad)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
