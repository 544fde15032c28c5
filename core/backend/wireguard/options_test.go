package wireguard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/config"
)

// Each option has an exact error for a bad value, which never shows a PSK.
func TestBadOptions(t *testing.T) {
	const port = "want a whole number from 1 to 65535"
	for _, c := range []struct{ conf, want string }{
		{network(`,"ListenPort":0`), "Backend ListenPort 0: " + port},
		{network(`,"ListenPort":70000`), "Backend ListenPort 70000: " + port},
		{network(`,"ListenPort":"51820"`), `Backend ListenPort "51820": ` + port},
		{network(`,"ListenPortV6":-1`), "Backend ListenPortV6 -1: " + port},
		{network(`,"MTU":100`), "Backend MTU 100: want 0 or a whole number from 576 to 65535"},
		{network(`,"PersistentKeepaliveInterval":70000`),
			"Backend PersistentKeepaliveInterval 70000: want 0 or a whole number from 1 to 65535"},
		{network(`,"Mode":"both"`), `Backend Mode "both": want one of separate, auto, ipv4, ipv6`},
		{network(`,"Implementation":"go"`), `Backend Implementation "go": want one of auto, kernel, userspace`},
		{network(`,"Overhead":50`), "Backend Overhead 50: want a whole number from 60 to 80"},
		{network(`,"PSK":"s3cret"`), "Backend PSK: want 32 bytes in base64"},
		{network(`,"PSK":7`), "Backend PSK: want 32 bytes in base64"},
		{network(`,"PSK":"` + testPSK[:40] + `"`), "Backend PSK: want 32 bytes in base64"},
		{network(`,"Mode":"ipv6"`), `Backend Mode "ipv6": nodes of an IPv4 network publish no IPv6 address; ` +
			`want separate, auto or ipv4`},
		{onlyV6(`,"Mode":"ipv4"`), `Backend Mode "ipv4": nodes of an IPv6 network publish no IPv4 address; ` +
			`want separate, auto or ipv6`},
		{dual(`,"ListenPort":51821`), "Backend ListenPort and ListenPortV6 are both 51821: mode separate has two devices, " +
			"which need two ports"},
		{dual(`,"Overhead":60`), "Backend Overhead 60: endpoints with IPv6 addresses need 80"},
		{dual(`,"Mode":"auto","ListenPort":51821`), ""},
		{network(`,"PSK":null`), ""},
		{network(`,"PSK":""`), ""},
	} {
		network, err := config.Parse([]byte(c.conf))
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		if _, err := Spec().Open(network); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.conf, text, c.want)
		}
	}
}

// The PSK is handed over as a secret, and no object holds it.
func TestPSKStaysSecret(t *testing.T) {
	b, _ := newBackend(t, network(`,"PSK":"`+testPSK+`"`))
	psks := b.Extent().PSKs
	if len(psks) != 1 || strings.Contains(fmt.Sprintf("%v %+v %s", b, b.Extent(), psks), testPSK) {
		t.Errorf("secrets %v", psks)
	}
	plain, _ := newBackend(t, network(""))
	if got := plain.Extent().PSKs; len(got) > 0 {
		t.Errorf("secrets %v without a PSK", got)
	}
}
