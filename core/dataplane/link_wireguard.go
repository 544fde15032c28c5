package dataplane

// LinkWireGuard is the kernel's name for the kind of [WireGuard].
const LinkWireGuard LinkKind = "wireguard"

// WireGuard holds the parameters of a WireGuard device (Linux drivers/net/wireguard).
// The private key is the secret [WireGuardKey], of which PublicKey is the
// public half. A driver refuses the link with ErrInvalid if it is not.
//
// A userspace device is a persistent TUN device with an implementation of
// WireGuard in the driver's process. It outlives that process, which
// PublicKey and ListenPort do not: they are zero while no implementation runs.
// Replace starts one on the existing device.
type WireGuard struct {
	ListenPort uint16    // UDP port of the socket, on all addresses
	PublicKey  PublicKey // of the device itself
	Userspace  bool
}

// Kind implements [LinkParams].
func (WireGuard) Kind() LinkKind { return LinkWireGuard }

func (w WireGuard) words(l *line) {
	l.add(w.Userspace, "userspace")
	l.add(w.ListenPort != 0, "port %d", w.ListenPort)
	l.add(!w.PublicKey.IsZero(), "key %s", w.PublicKey)
}

func (w WireGuard) withWord(word string, f *fields) (LinkParams, bool) {
	switch word {
	case "userspace":
		w.Userspace = true
	case "port":
		w.ListenPort = uint16(f.number(16))
	case "key":
		w.PublicKey = f.publicKey()
	default:
		return w, false
	}
	return w, true
}

// become refuses a change between a kernel device and a TUN device.
func (w WireGuard) become(params LinkParams) error {
	return fixed("userspace", w.Userspace, params.(WireGuard).Userspace)
}
