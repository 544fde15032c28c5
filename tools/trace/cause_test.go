package trace

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// A cause that looks like another is told apart: a source without a way back, another program's address, and a
// neighbour that no node asks for.
func TestCauses(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		harm     func(k *fakeKernel)
		want     string // of the last step, or of what cannot be judged
	}{
		{"10.5.1.7", "10.5.2.7", func(k *fakeKernel) { k.errs["cni0 10.5.2.7"] = ErrBlackhole },
			"the kernel has no way to 10.5.2.7: a route drops packets"},
		{"10.5.1.7", "10.5.2.7", func(k *fakeKernel) {
			k.errs["cni0 10.5.2.7"], k.errs["10.5.1.7"] = ErrBlackhole, ErrNoRoute
		}, "the kernel takes no packet from 10.5.1.7 that comes in by cni0: it has no way back there"},
		{"10.5.1.7", "10.5.2.7", func(k *fakeKernel) { k.routes["192.168.64.2"] = Route{Local: true} },
			"192.168.64.2 is an address of this host"},
		{"10.5.2.7", "10.5.1.7", func(k *fakeKernel) {
			k.neighs[addr("10.5.1.7")] = Neighbour{Exists: true, Fixed: true, MAC: dataplane.MAC{2, 5: 9}}
		}, "cni0 has a permanent entry, by which 10.5.1.7 is 02:00:00:00:00:09: if that is not its MAC, packets are lost"},
	} {
		k := healthy(t)
		c.harm(k)
		r, err := Walk(t.Context(), k, Flow{Src: addr(c.src), Dst: addr(c.dst), Size: 84}, known)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(append(r.Unsure, r.Hops[len(r.Hops)-1].Text), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s to %s: %s, want %s", c.src, c.dst, got, c.want)
		}
	}
}

// A queue that may drop packets though there is room is told from the usual ones.
func TestIsShaper(t *testing.T) {
	for queue, want := range map[string]bool{
		"qdisc tbf 8001: root refcnt 2 rate 1Kbit burst 60b lat 1ms":           true,
		"qdisc noqueue 0: root refcnt 2":                                       false,
		"qdisc fq_codel 0: root refcnt 2 limit 10240p flows 1024":              false,
		"qdisc mq 0: root qdisc netem 10: parent :1 limit 1000 delay 10ms":     true,
		"qdisc clsact ffff: parent ffff:fff1 qdisc pfifo_fast 0: root bands 3": false,
	} {
		if got := isShaper(queue); got != want {
			t.Errorf("%s: %v", queue, got)
		}
	}
}
