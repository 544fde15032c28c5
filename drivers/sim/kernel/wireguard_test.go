package kernel

import (
	"fmt"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// keyOf holds the one secret of a program.
type keyOf struct{ secret dataplane.Secret }

func (k keyOf) Secret(dataplane.SecretName) (dataplane.Secret, error) { return k.secret, nil }

// encrypted programs WireGuard between two hosts, and gives each a pod.
func encrypted(t *testing.T) *lab {
	t.Helper()
	l := underlay(t, 1, 2)
	var secrets []dataplane.Secret
	for i := range l.hosts {
		data := make([]byte, 32)
		data[5] = byte(i + 1)
		secret, err := dataplane.SecretOf(data)
		must(t, err)
		secrets = append(secrets, secret)
	}
	for i, h := range l.hosts {
		other := 1 - i
		h.UseSecrets(keyOf{secrets[i]})
		program(t, h,
			fmt.Sprintf("add link flannel-wg type wireguard mtu 1420 up port 51820 key %s", secrets[i].PublicKey()),
			fmt.Sprintf("add addr 10.5.%d.0/32 dev flannel-wg", i+1),
			fmt.Sprintf("add wgpeer %s endpoint 192.168.64.%d:51820 allowed 10.5.%d.0/24 dev flannel-wg",
				secrets[other].PublicKey(), other+1, other+1),
			"add route 10.5.0.0/16 dev flannel-wg scope 253")
		pod, err := h.NewPod("pod", 1420, v4("10.5.%d.0/24", i+1))
		must(t, err)
		l.pods = append(l.pods, pod)
	}
	return l
}

// TestHandshakesThatCross lets two pods send to each other for the first time. If one sends
// alone, the answer comes at once. If both send at the same moment, the hosts' handshakes
// undo each other, and packets wait for the next try, after five seconds, as measured on
// Linux 6.1.
func TestHandshakesThatCross(t *testing.T) {
	for name, c := range map[string]struct {
		apart       time.Duration
		least, most time.Duration
	}{
		"at the same moment":    {0, 5 * time.Second, 6 * time.Second},
		"one after the other":   {time.Second, 0, time.Second},
		"before it is answered": {50 * time.Microsecond, 5 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := encrypted(t)
			first := l.pods[0].Ping(l.pods[1].Addr(cidr.V4), PingOptions{Timeout: time.Minute})
			l.Run(c.apart)
			began := l.Now()
			second := l.pods[1].Ping(l.pods[0].Addr(cidr.V4), PingOptions{Timeout: time.Minute})
			l.await(t, first)
			wantDelivered(t, first)
			l.await(t, second)
			wantDelivered(t, second)
			if took := l.Now().Sub(began); took < c.least || took > c.most {
				t.Errorf("the later answer came after %s, want %s to %s", took, c.least, c.most)
			}
		})
	}
}
