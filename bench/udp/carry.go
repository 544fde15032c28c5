package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux"
)

const (
	tunDevice   = "flannel0"
	vxlanDevice = "flannel.1"
	wgDevice    = "flannel-wg"
)

// keys are the secrets of the node with that number.
type keys int

// Secret implements [driver.Secrets].
func (k keys) Secret(name dataplane.SecretName) (dataplane.Secret, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s of node %d", name, int(k)))
	return dataplane.SecretOf(sum[:])
}

// public returns the node's public key.
func (k keys) public() (dataplane.PublicKey, error) {
	secret, err := k.Secret(dataplane.WireGuardKey)
	return secret.PublicKey(), err
}

// carry is the role of a node: it carries packets until its input ends.
func carry(args []string) error {
	way, profile := args[0], args[2]
	i, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if way == "upstream" {
		return carryUpstream(i)
	}
	ctx := context.Background()
	d, err := linux.New(ctx, keys(i))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := create(ctx, d, way, i); err != nil {
		return err
	}
	if profile != "" {
		f, err := os.Create(filepath.Join(profile, fmt.Sprintf("%s-%d.pprof", way, i)))
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	said := "no process"
	seen, err := d.Look(ctx, dataplane.Extent{Links: []string{tunDevice}})
	if err != nil {
		return err
	}
	if r, ok := seen.State.Running[tunDevice]; ok {
		said = fmt.Sprintf("tier %s: %s", r.Tier, r.Reason)
	}
	fmt.Println(os.Getpid(), said)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// create makes the objects that the backend would want.
func create(ctx context.Context, d *linux.Driver, way string, i int) error {
	objects, err := wanted(way, i)
	if err != nil {
		return err
	}
	var ops []dataplane.Op
	for _, o := range objects {
		ops = append(ops, dataplane.Op{Verb: dataplane.Create, Object: o})
	}
	for _, err := range d.Apply(ctx, ops) {
		if err != nil {
			return err
		}
	}
	return nil
}

func wanted(way string, i int) ([]dataplane.Object, error) {
	own, other := subnet(i), subnet(1-i)
	mtu := underlayMTU - overheads[way]
	toPeer := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: other}, Protocol: dataplane.Protocol}
	switch way {
	case "raw":
		toPeer.Link, toPeer.Via = "eth0", underlay(1-i)
		return []dataplane.Object{toPeer}, nil
	case "vxlan":
		toPeer.Link, toPeer.Via = vxlanDevice, other.Addr()
		toPeer.OnLink = true
		return []dataplane.Object{
			dataplane.Link{Name: vxlanDevice, MTU: mtu, MAC: mac(i), Up: true,
				Params: dataplane.VXLAN{VNI: 1, Parent: "eth0", Local: underlay(i), Port: 8472}},
			dataplane.Addr{Link: vxlanDevice, Prefix: netip.PrefixFrom(own.Addr(), 32)},
			dataplane.FDBEntry{FDBKey: dataplane.FDBKey{Link: vxlanDevice, MAC: mac(1 - i)}, Dst: underlay(1 - i)},
			dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: vxlanDevice, IP: other.Addr()}, MAC: mac(1 - i)},
			toPeer,
		}, nil
	case "wireguard", "kernel-wireguard":
		return wireguardObjects(way, i)
	}
	offload := map[string]dataplane.Offload{"plain": dataplane.OffloadOff, "gso": dataplane.OffloadGSO}[way]
	toPeer.Link = tunDevice
	return []dataplane.Object{
		dataplane.Link{Name: tunDevice, MTU: mtu, Up: true, Params: dataplane.TUN{}},
		dataplane.Addr{Link: tunDevice, Prefix: netip.PrefixFrom(own.Addr(), 32)},
		dataplane.Proxy{Link: tunDevice, Local: netip.AddrPortFrom(underlay(i), 8285), Subnet: own, MTU: mtu,
			Offload: offload},
		dataplane.Peer{PeerKey: dataplane.PeerKey{Link: tunDevice, Subnet: other}, To: underlay(1 - i)},
		toPeer,
	}, nil
}

// wireguardObjects are those of a WireGuard device in userspace or in the kernel.
func wireguardObjects(way string, i int) ([]dataplane.Object, error) {
	own, other := subnet(i), subnet(1-i)
	ownKey, err := keys(i).public()
	if err != nil {
		return nil, err
	}
	peerKey, err := keys(1 - i).public()
	if err != nil {
		return nil, err
	}
	const port = 51820
	params := dataplane.WireGuard{ListenPort: port, PublicKey: ownKey, Userspace: way == "wireguard"}
	peer := dataplane.WGPeer{
		WGPeerKey: dataplane.WGPeerKey{Link: wgDevice, Public: peerKey},
		Endpoint:  netip.AddrPortFrom(underlay(1-i), port),
		Allowed:   [2]netip.Prefix{cidr.V4: other},
	}
	return []dataplane.Object{
		dataplane.Link{Name: wgDevice, MTU: underlayMTU - overheads[way], Up: true, Params: params},
		dataplane.Addr{Link: wgDevice, Prefix: netip.PrefixFrom(own.Addr(), 32)},
		peer,
		dataplane.Route{RouteKey: dataplane.RouteKey{Dst: other}, Link: wgDevice, Protocol: dataplane.Protocol},
	}, nil
}

func mac(i int) dataplane.MAC { return dataplane.MAC{2, 0, 0, 0, 0, byte(i + 1)} }
