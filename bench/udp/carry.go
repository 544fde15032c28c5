package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux"
)

const tunDevice, vxlanDevice = "flannel0", "flannel.1"

// carry is the role of a node: it carries packets until its input ends.
func carry(args []string) error {
	way, profile := args[0], args[2]
	i, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx := context.Background()
	d, err := linux.New(ctx, nil)
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
	fmt.Println(said)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// create makes the objects that the backend would want.
func create(ctx context.Context, d *linux.Driver, way string, i int) error {
	var ops []dataplane.Op
	for _, o := range wanted(way, i) {
		ops = append(ops, dataplane.Op{Verb: dataplane.Create, Object: o})
	}
	for _, err := range d.Apply(ctx, ops) {
		if err != nil {
			return err
		}
	}
	return nil
}

func wanted(way string, i int) []dataplane.Object {
	own, other := subnet(i), subnet(1-i)
	mtu := underlayMTU - overheads[way]
	toPeer := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: other}, Protocol: dataplane.Protocol}
	switch way {
	case "raw":
		toPeer.Link, toPeer.Via = "eth0", underlay(1-i)
		return []dataplane.Object{toPeer}
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
		}
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
	}
}

func mac(i int) dataplane.MAC { return dataplane.MAC{2, 0, 0, 0, 0, byte(i + 1)} }
