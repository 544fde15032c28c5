package kube

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// FuzzDecode decodes arbitrary bytes: the decoder ends, and agrees with the
// generated code on every node.
func FuzzDecode(f *testing.F) {
	names, err := nodelease.ParsePrefix(nodelease.DefaultPrefix)
	if err != nil {
		f.Fatal(err)
	}
	seeds := []*corev1.Node{
		{}, peer(2), plain("n3", "10.244.3.0/24", "fd00:10:244:3::/64"), kubetest.Realistic(7),
	}
	for _, n := range seeds {
		n.UID, n.ResourceVersion = "u", "7"
		raw, err := n.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
		f.Add(append([]byte(magic), raw...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := reader{from: bytes.NewReader(raw)}
		frame, err := r.frame()
		if err == nil {
			_, _, unread := decodeEvent(frame, names)
			_ = unread
		}
		_, _ = decodeList(&reader{from: bytes.NewReader(raw)}, names, func(item) {})
		_, _ = decodePod(raw)
		it, err := decodeNode(raw, names)
		var whole corev1.Node
		if err != nil || whole.Unmarshal(raw) != nil || slices.Contains(whole.Spec.PodCIDRs, "") {
			return
		}
		_ = standingOf(it)
		cidrs := strings.Join(whole.Spec.PodCIDRs, ",")
		if cidrs == "" {
			cidrs = whole.Spec.PodCIDR
		}
		if it.node.Name != whole.Name || it.node.UID != string(whole.UID) || it.node.PodCIDRs != cidrs {
			t.Errorf("read as %+v, is %q %q %q", it.node, whole.Name, whole.UID, cidrs)
		}
	})
}
