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

// params lists the parameters in the order of the canonical form.
func (w *WireGuard) params() []param {
	return []param{
		{"userspace", w.Userspace, nil, func(*fields) { w.Userspace = true }},
		{"port", w.ListenPort != 0, w.ListenPort, func(f *fields) { w.ListenPort = uint16(f.number(16)) }},
		{"key", !w.PublicKey.IsZero(), w.PublicKey, func(f *fields) { w.PublicKey = f.publicKey() }},
	}
}

func (w WireGuard) words(l *line) { addParams(l, w.params()) }

func (w WireGuard) withWord(word string, f *fields) (LinkParams, bool) {
	ok := readParam(w.params(), word, f)
	return w, ok
}

// become refuses a change between a kernel device and a TUN device.
func (w WireGuard) become(params LinkParams) error {
	return fixed("userspace", w.Userspace, params.(WireGuard).Userspace)
}
