package node

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// feature returns the value of the device's TxChecksum on the host; "": it is not set.
func (p *prober) feature() string {
	return p.host.Sysctls[dataplane.TxChecksum("flannel.1", "").Path].Value
}

// TestWrongChecksums has a network card that computes wrong checksums, until it is repaired.
func TestWrongChecksums(t *testing.T) {
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.host.AddSysctl(dataplane.TxChecksum("flannel.1", dataplane.FeatureOn))
	p.pass(2 * time.Minute)
	p.badCard = true
	p.pass(5 * time.Minute)
	if p.feature() != dataplane.FeatureOff || p.count("tx-checksum") != 1 {
		t.Fatalf("the feature is %q:\n%s", p.feature(), p.log())
	}
	p.wantReady()

	// Another program changes it back.
	p.host.AddSysctl(dataplane.TxChecksum("flannel.1", dataplane.FeatureOn))
	p.pass(2 * time.Minute)
	if p.feature() != dataplane.FeatureOff {
		t.Errorf("the feature is %q:\n%s", p.feature(), p.log())
	}

	// The node tries the card again, and finds it as it was.
	p.pass(2 * time.Hour)
	if p.feature() != dataplane.FeatureOff || p.count("tx-checksum") != 2 {
		t.Errorf("after a new trial the feature is %q:\n%s", p.feature(), p.log())
	}
	p.badCard = false
	p.pass(3 * time.Hour)
	if p.feature() != dataplane.FeatureOn || p.count("tx-checksum") != 2 {
		t.Errorf("after the repair the feature is %q:\n%s", p.feature(), p.log())
	}
	p.wantReady()
}

// TestFilterIsNoCard has all peers answer ICMP and none TCP, with and without the card's checksums.
func TestFilterIsNoCard(t *testing.T) {
	first, second := netip.MustParseAddr("10.5.1.0"), netip.MustParseAddr("10.5.2.0")
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.host.AddSysctl(dataplane.TxChecksum("flannel.1", dataplane.FeatureOn))
	p.pass(2 * time.Minute)
	p.noTCP = map[netip.Addr]bool{first: true}
	p.pass(5 * time.Minute)
	if p.feature() != dataplane.FeatureOn || p.count("tx-checksum-trial") != 0 {
		t.Fatalf("one peer of two is a firewall of that peer:\n%s", p.log())
	}
	p.noTCP[second] = true
	p.pass(10 * time.Minute)
	if p.feature() != dataplane.FeatureOn || p.count("tx-checksum") != 0 || p.count("tx-checksum-trial") != 2 {
		t.Fatalf("the feature is %q:\n%s", p.feature(), p.log())
	}
	p.wantReady()
	p.pass(24 * time.Hour)
	if n := p.count("tx-checksum-trial"); n < 4 || n > 12 {
		t.Errorf("%d changes in a day, want a few\n%s", n, p.log())
	}
}

// TestOnePeerIsNotAllPeers has each of some peers in turn behind a firewall: one of them is
// the first of which the node knows anything.
func TestOnePeerIsNotAllPeers(t *testing.T) {
	for deaf := range byte(4) {
		p := newProber(t, vxlanConfig)
		p.noTCP = map[netip.Addr]bool{netip.AddrFrom4([4]byte{10, 5, deaf + 1, 0}): true}
		p.host.AddSysctl(dataplane.TxChecksum("flannel.1", dataplane.FeatureOn))
		for i := range byte(4) {
			p.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", i+1), i+11))
		}
		p.tell()
		p.pass(5 * time.Minute)
		if p.feature() != dataplane.FeatureOn || p.count("tx-checksum") != 0 {
			t.Errorf("peer %d: the feature is %q:\n%s", deaf+1, p.feature(), p.log())
		}
	}
}

// TestTCPWithoutICMP has a peer that answers TCP alone, behind a firewall that drops ICMP.
func TestTCPWithoutICMP(t *testing.T) {
	first, second := netip.MustParseAddr("10.5.1.0"), netip.MustParseAddr("10.5.2.0")
	p := newProber(t, vxlanConfig, vxlanPeer("10.5.1.0-24", 11), vxlanPeer("10.5.2.0-24", 12))
	p.host.AddSysctl(dataplane.TxChecksum("flannel.1", dataplane.FeatureOn))
	p.pass(2 * time.Minute)
	p.noICMP = map[netip.Addr]bool{first: true}
	p.pass(2 * time.Minute)
	p.noTCP = map[netip.Addr]bool{second: true}
	p.pass(5 * time.Minute)
	if p.feature() != dataplane.FeatureOn || p.count("tx-checksum") != 0 {
		t.Errorf("the feature is %q:\n%s", p.feature(), p.log())
	}
}

// TestChecksumsStayAsConfigured has the same evidence, and a config that decides.
func TestChecksumsStayAsConfigured(t *testing.T) {
	for conf, want := range map[string]string{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","TxChecksum":"on"}}`:  dataplane.FeatureOn,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","TxChecksum":"off"}}`: dataplane.FeatureOff,
	} {
		p := newProber(t, conf, vxlanPeer("10.5.1.0-24", 11))
		p.noTCP = map[netip.Addr]bool{netip.MustParseAddr("10.5.1.0"): true}
		p.pass(2 * time.Minute)
		if p.feature() != want || p.count("tx-checksum") != 0 {
			t.Errorf("%s: the feature is %q:\n%s", conf, p.feature(), p.log())
		}
	}
}
