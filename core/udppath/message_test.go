package udppath

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessage(t *testing.T) {
	type packet struct {
		to    netip.Addr
		sizes []int
	}
	repeat := func(n, size int) (sizes []int) {
		for range n {
			sizes = append(sizes, size)
		}
		return sizes
	}
	for _, c := range []struct {
		what string
		in   []packet
		want []Message
	}{
		{"one", []packet{{nodeB, []int{40}}}, []Message{{nodeB, 40, 1, 40}}},
		{"of one size", []packet{{nodeB, []int{40, 40, 40}}}, []Message{{nodeB, 40, 3, 120}}},
		{"a shorter one ends it", []packet{{nodeB, []int{40, 40, 39, 39, 40}}},
			[]Message{{nodeB, 40, 3, 119}, {nodeB, 39, 1, 39}, {nodeB, 40, 1, 40}}},
		{"a longer one begins another", []packet{{nodeB, []int{40, 41}}}, []Message{{nodeB, 40, 1, 40}, {nodeB, 41, 1, 41}}},
		{"another node", []packet{{nodeB, []int{40}}, {nodeC, []int{40, 40}}},
			[]Message{{nodeB, 40, 1, 40}, {nodeC, 40, 2, 80}}},
		{"no more than 64", []packet{{nodeB, repeat(65, 100)}}, []Message{{nodeB, 100, 64, 6400}, {nodeB, 100, 1, 100}}},
		{"no more than 65507 bytes", []packet{{nodeB, repeat(45, 1472)}},
			[]Message{{nodeB, 1472, 44, 64768}, {nodeB, 1472, 1, 1472}}},
		{"exactly 65507 bytes", []packet{{nodeB, []int{32754, 32753, 1}}},
			[]Message{{nodeB, 32754, 2, 65507}, {nodeB, 1, 1, 1}}},
		{"one byte more", []packet{{nodeB, []int{32754, 32754}}},
			[]Message{{nodeB, 32754, 1, 32754}, {nodeB, 32754, 1, 32754}}},
	} {
		t.Run(c.what, func(t *testing.T) {
			var got []Message
			var m Message
			for _, p := range c.in {
				for _, size := range p.sizes {
					if !m.Add(p.to, size) {
						got = append(got, m)
						m = Message{}
						if !m.Add(p.to, size) {
							t.Fatal("an empty message has no room")
						}
					}
				}
			}
			if d := cmp.Diff(c.want, append(got, m), byValue); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
