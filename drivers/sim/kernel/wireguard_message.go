package kernel

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/flanneld/flannel/core/dataplane"
)

// The messages of WireGuard have the sizes and the fields of the real protocol, so
// that MTUs and captures are right. They model only the visible effects of its
// cryptography: a payload is unreadable, and a device refuses a message made with
// another key. A device needs the private half to name its own public key, so no
// device can impersonate another.
const (
	wgInitiation = 1
	wgResponse   = 2
	wgData       = 4

	wgInitiationLen = 148
	wgResponseLen   = 92
	wgDataHeader    = 16
	wgTagLen        = 16
)

// wgMessage is a parsed message. The fields of other types are zero.
type wgMessage struct {
	kind     byte
	sender   uint32         // index of the sender's session
	receiver uint32         // index of the receiver's session
	nonce    [32]byte       // of a handshake
	static   [32]byte       // the initiator's public key, masked
	proof    [wgTagLen]byte // that the sender has the right keys
	counter  uint64         // of data
	body     []byte         // of data, encrypted, with its tag
}

// wgHash returns a hash of several texts.
func wgHash(parts ...[]byte) [32]byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return [32]byte(h.Sum(nil))
}

// wgMask masks a text of 32 bytes, or unmasks it, with a key.
func wgMask(text, key [32]byte) [32]byte {
	for i := range text {
		text[i] ^= key[i]
	}
	return text
}

// bytes returns the message as it is on the wire.
func (m *wgMessage) bytes() []byte {
	switch m.kind {
	case wgInitiation:
		b := make([]byte, wgInitiationLen)
		b[0] = m.kind
		binary.LittleEndian.PutUint32(b[4:], m.sender)
		copy(b[8:], m.nonce[:])
		copy(b[40:], m.static[:])
		copy(b[116:], m.proof[:])
		return b
	case wgResponse:
		b := make([]byte, wgResponseLen)
		b[0] = m.kind
		binary.LittleEndian.PutUint32(b[4:], m.sender)
		binary.LittleEndian.PutUint32(b[8:], m.receiver)
		copy(b[12:], m.nonce[:])
		copy(b[44:], m.proof[:])
		return b
	}
	b := make([]byte, wgDataHeader, wgDataHeader+len(m.body))
	b[0] = wgData
	binary.LittleEndian.PutUint32(b[4:], m.receiver)
	binary.LittleEndian.PutUint64(b[8:], m.counter)
	return append(b, m.body...)
}

func parseWG(b []byte) (wgMessage, error) {
	if len(b) < 4 {
		return wgMessage{}, errShort
	}
	m := wgMessage{kind: b[0]}
	switch {
	case m.kind == wgInitiation && len(b) == wgInitiationLen:
		m.sender = binary.LittleEndian.Uint32(b[4:])
		copy(m.nonce[:], b[8:])
		copy(m.static[:], b[40:])
		copy(m.proof[:], b[116:])
	case m.kind == wgResponse && len(b) == wgResponseLen:
		m.sender = binary.LittleEndian.Uint32(b[4:])
		m.receiver = binary.LittleEndian.Uint32(b[8:])
		copy(m.nonce[:], b[12:])
		copy(m.proof[:], b[44:])
	case m.kind == wgData && len(b) >= wgDataHeader+wgTagLen:
		m.receiver = binary.LittleEndian.Uint32(b[4:])
		m.counter = binary.LittleEndian.Uint64(b[8:])
		m.body = b[wgDataHeader:]
	default:
		return wgMessage{}, errVersion
	}
	return m, nil
}

// proofOfPeer proves that the sender knows the receiver's public key.
func proofOfPeer(receiver dataplane.PublicKey, nonce, static [32]byte) [wgTagLen]byte {
	sum := wgHash([]byte("peer"), receiver[:], nonce[:], static[:])
	return [wgTagLen]byte(sum[:])
}

// proofOfPSK proves that the responder has the initiator's pre-shared key.
func proofOfPSK(psk dataplane.Secret, ours, theirs [32]byte) [wgTagLen]byte {
	sum := wgHash([]byte("psk"), psk.Bytes(), ours[:], theirs[:])
	return [wgTagLen]byte(sum[:])
}

// wgCipher encrypts the packets of one session.
type wgCipher struct{ key [32]byte }

func newWGCipher(psk dataplane.Secret, initiator, responder [32]byte) wgCipher {
	return wgCipher{wgHash([]byte("session"), psk.Bytes(), initiator[:], responder[:])}
}

// seal returns the packet encrypted, padded to a multiple of 16 bytes, with its tag.
func (c wgCipher) seal(counter uint64, packet []byte) []byte {
	body := make([]byte, (len(packet)+15)/16*16)
	copy(body, packet)
	c.apply(counter, body)
	tag := c.tag(counter, body)
	return append(body, tag[:]...)
}

// open returns the packet with its padding, or false if it was sealed with another key.
func (c wgCipher) open(counter uint64, sealed []byte) ([]byte, bool) {
	body := append([]byte(nil), sealed[:len(sealed)-wgTagLen]...)
	if [wgTagLen]byte(sealed[len(body):]) != c.tag(counter, body) {
		return nil, false
	}
	c.apply(counter, body)
	return body, true
}

func (c wgCipher) tag(counter uint64, body []byte) [wgTagLen]byte {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], counter)
	sum := wgHash([]byte("tag"), c.key[:], n[:], body)
	return [wgTagLen]byte(sum[:])
}

// apply encrypts or decrypts in place.
func (c wgCipher) apply(counter uint64, body []byte) {
	var n [16]byte
	binary.LittleEndian.PutUint64(n[:], counter)
	for at := 0; at < len(body); at += 32 {
		binary.LittleEndian.PutUint64(n[8:], uint64(at))
		stream := wgHash([]byte("stream"), c.key[:], n[:])
		for i := range body[at:min(at+32, len(body))] {
			body[at+i] ^= stream[i]
		}
	}
}
