package kube

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unique"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flanneld/flannel/core/nodelease"
)

// The fields of the API server's protobuf that the store reads: generated.proto
// of k8s.io/apimachinery and k8s.io/api has the numbers. The decoder skips
// everything else, and so is faster than the generated code: most of a node's
// 15 kB are images, conditions and addresses.
const (
	// magic begins each object that is not part of another.
	magic = "k8s\x00"

	unknownRaw protowire.Number = 2 // runtime.Unknown

	listMeta     protowire.Number = 1 // v1.NodeList
	listItems    protowire.Number = 2
	listRevision protowire.Number = 2 // meta/v1.ListMeta
	listContinue protowire.Number = 3

	statusAddresses protowire.Number = 5 // v1.NodeStatus
	addressType     protowire.Number = 1 // v1.NodeAddress
	addressAddress  protowire.Number = 2

	nodeMeta protowire.Number = 1 // v1.Node, v1.Pod
	nodeSpec protowire.Number = 2

	metaName        protowire.Number = 1 // meta/v1.ObjectMeta
	metaUID         protowire.Number = 5
	metaRevision    protowire.Number = 6
	metaCreated     protowire.Number = 8
	metaAnnotations protowire.Number = 12
	timeSeconds     protowire.Number = 1 // meta/v1.Time
	mapKey          protowire.Number = 1
	mapValue        protowire.Number = 2

	specPodCIDR  protowire.Number = 1  // v1.NodeSpec
	specPodCIDRs protowire.Number = 7  // v1.NodeSpec
	specNodeName protowire.Number = 10 // v1.PodSpec

	eventType   protowire.Number = 1 // meta/v1.WatchEvent
	eventObject protowire.Number = 2
	rawRaw      protowire.Number = 1 // runtime.RawExtension

	statusMessage protowire.Number = 3 // meta/v1.Status
	statusCode    protowire.Number = 6
)

// initialEventsEnd marks the bookmark that ends a streaming list.
const initialEventsEnd = "k8s.io/initial-events-end"

var errNotProtobuf = errors.New("the API server's answer is not protobuf; " +
	"is there a proxy in between?")

// item is a node object as of a revision.
type item struct {
	node     nodelease.Node
	revision int64
	complete bool // a bookmark: the listing is complete
	partial  bool // only what the metadata hold: neither pod CIDRs nor status
	// status is read for our own node only. It lies in the buffer of the
	// decoder, and is valid until the next item is decoded.
	status []byte
}

// fields calls each for every field of a message, with the field's content, or with
// its value if it is a number. An ignored field costs only reading its length.
func fields(b []byte, each func(n protowire.Number, content []byte, value uint64) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var content []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			content, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, size = protowire.ConsumeVarint(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if err := each(n, content, value); err != nil {
			return err
		}
	}
	return nil
}

// unwrap takes an object out of its envelope.
func unwrap(b []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok {
		return nil, errNotProtobuf
	}
	var raw []byte
	err := fields(rest, func(n protowire.Number, content []byte, _ uint64) error {
		if n == unknownRaw {
			raw = content
		}
		return nil
	})
	return raw, err
}

// decodeNode reads a node. It keeps nothing of b except the status, undecoded.
func decodeNode(b []byte, names nodelease.Names) (item, error) {
	var it item
	var one string
	err := fields(b, func(n protowire.Number, content []byte, _ uint64) error {
		switch n {
		case nodeMeta:
			return it.decodeMeta(content, names)
		case nodeSpec:
			return fields(content, func(n protowire.Number, content []byte, _ uint64) error {
				switch n {
				case specPodCIDR:
					one = string(content)
				case specPodCIDRs:
					it.node.PodCIDRs = strings.TrimPrefix(it.node.PodCIDRs+","+string(content), ",")
				}
				return nil
			})
		case nodeStatus:
			it.status = content
		}
		return nil
	})
	if it.node.PodCIDRs == "" {
		it.node.PodCIDRs = one
	}
	if err != nil {
		return item{}, fmt.Errorf("node object %q: %w", it.node.Name, err)
	}
	return it, nil
}

func (it *item) decodeMeta(b []byte, names nodelease.Names) error {
	return fields(b, func(n protowire.Number, content []byte, _ uint64) (err error) {
		switch n {
		case metaName:
			it.node.Name = string(content)
		case metaUID:
			it.node.UID = string(content)
		case metaRevision:
			it.revision, err = parseRevision(content)
		case metaCreated:
			return fields(content, func(n protowire.Number, _ []byte, value uint64) error {
				if n == timeSeconds {
					it.node.Created = int64(value)
				}
				return nil
			})
		case metaAnnotations:
			return it.decodeAnnotation(content, names)
		}
		return err
	})
}

// pair is a message with two fields.
func pair(b []byte, first, second protowire.Number) (x, y []byte, err error) {
	err = fields(b, func(n protowire.Number, content []byte, _ uint64) error {
		switch n {
		case first:
			x = content
		case second:
			y = content
		}
		return nil
	})
	return x, y, err
}

func (it *item) decodeAnnotation(b []byte, names nodelease.Names) error {
	key, value, err := pair(b, mapKey, mapValue)
	if string(key) == initialEventsEnd {
		it.complete = string(value) == "true"
	}
	if a, ok := names.Find(key); ok {
		it.node.Values[a] = keep(a, value[:min(len(value), nodelease.MaxValue+1)])
	}
	return err
}

// keep copies a value; values common to all nodes share one copy.
func keep(a nodelease.Annotation, value []byte) string {
	if a == nodelease.Marker || a == nodelease.BackendType {
		return unique.Make(string(value)).Value()
	}
	return string(value)
}

// parseRevision reads a resourceVersion. Kubernetes documents them as growing
// numbers since 1.35; they always were.
func parseRevision(text []byte) (int64, error) {
	r, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || r < 0 {
		return 0, fmt.Errorf("resourceVersion %.40q is not a number", text)
	}
	return r, nil
}

// decodeEvent reads one message of a watch.
func decodeEvent(b []byte, names nodelease.Names) (kind string, it item, err error) {
	var object []byte
	err = fields(bytes.TrimPrefix(b, []byte(magic)), func(n protowire.Number, content []byte, _ uint64) error {
		switch n {
		case eventType:
			kind = string(content)
		case eventObject:
			return fields(content, func(n protowire.Number, content []byte, _ uint64) error {
				if n == rawRaw {
					object = content
				}
				return nil
			})
		}
		return nil
	})
	if err == nil {
		object, err = unwrap(object)
	}
	switch {
	case err != nil:
		return "", item{}, fmt.Errorf("watch event: %w", err)
	case kind == "ERROR":
		return kind, item{}, decodeStatus(object)
	}
	it, err = decodeNode(object, names)
	return kind, it, err
}

// watchError is the API server's error in place of an event.
type watchError struct {
	code    int
	message string
}

func (e *watchError) Error() string { return fmt.Sprintf("%s (status %d)", e.message, e.code) }

func decodeStatus(b []byte) error {
	e := &watchError{}
	err := fields(b, func(n protowire.Number, content []byte, value uint64) error {
		switch n {
		case statusMessage:
			e.message = string(content)
		case statusCode:
			e.code = int(value)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("watch error: %w", err)
	}
	return e
}

// decodePod returns the name of the node that a pod runs on.
func decodePod(b []byte) (node string, err error) {
	err = fields(b, func(n protowire.Number, content []byte, _ uint64) error {
		if n != nodeSpec {
			return nil
		}
		return fields(content, func(n protowire.Number, content []byte, _ uint64) error {
			if n == specNodeName {
				node = string(content)
			}
			return nil
		})
	})
	return node, err
}

// internalIPs returns the addresses of type InternalIP in a node's status, separated
// by commas. If the status is malformed, it returns those before the fault.
func internalIPs(status []byte) string {
	var addrs []string
	_ = fields(status, func(n protowire.Number, content []byte, _ uint64) error {
		if n != statusAddresses {
			return nil
		}
		kind, address, err := pair(content, addressType, addressAddress)
		if string(kind) == "InternalIP" {
			addrs = append(addrs, string(address))
		}
		return err
	})
	return strings.Join(addrs, ",")
}

// maxObject bounds the size of an object, in bytes. The API server accepts none
// of more than 3 MB.
const maxObject = 16 << 20

// page is the metadata of a list.
type page struct {
	revision int64
	next     string // the token for the rest; "": there is none
}

// decodeList reads a list of nodes as it arrives, one at a time.
func decodeList(r *reader, names nodelease.Names, each func(item)) (page, error) {
	var p page
	if head, err := r.take(len(magic)); err != nil || string(head) != magic {
		return p, cmpErr(err, errNotProtobuf)
	}
	size, err := r.find(unknownRaw)
	if err != nil {
		return p, err
	}
	for end := r.read + int64(size); r.read < end; {
		n, size, err := r.tag()
		if err != nil {
			return p, err
		}
		content, err := r.take(size)
		if err != nil {
			return p, err
		}
		switch n {
		case listMeta:
			err = p.decode(content)
		case listItems:
			it, bad := decodeNode(content, names)
			err = bad
			if err == nil {
				each(it)
			}
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (p *page) decode(b []byte) error {
	return fields(b, func(n protowire.Number, content []byte, _ uint64) (err error) {
		switch n {
		case listRevision:
			p.revision, err = parseRevision(content)
		case listContinue:
			p.next = string(content)
		}
		return err
	})
}

// reader reads protobuf and its frames from a stream.
type reader struct {
	from interface {
		io.Reader
		io.ByteReader
	}
	read int64
	buf  []byte
}

// ReadByte implements [io.ByteReader].
func (r *reader) ReadByte() (byte, error) {
	b, err := r.from.ReadByte()
	if err == nil {
		r.read++
	}
	return b, err
}

// take reads that many bytes, into a buffer that the next call reuses.
func (r *reader) take(size int) ([]byte, error) {
	if size < 0 || size > maxObject {
		return nil, fmt.Errorf("object of %d bytes; is this protobuf?", size)
	}
	if cap(r.buf) < size {
		r.buf = make([]byte, size+size/2)
	}
	n, err := io.ReadFull(r.from, r.buf[:size])
	r.read += int64(n)
	return r.buf[:size], err
}

// tag reads the number and the length of the next field, which must have a length.
func (r *reader) tag() (protowire.Number, int, error) {
	tag, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, 0, err
	}
	n, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType {
		return 0, 0, errNotProtobuf
	}
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, 0, err
	}
	if size > 1<<40 {
		return 0, 0, errNotProtobuf
	}
	return n, int(size), nil
}

// find skips fields up to one, and returns its length.
func (r *reader) find(want protowire.Number) (int, error) {
	for {
		n, size, err := r.tag()
		if err != nil || n == want {
			return size, err
		}
		if _, err := r.take(size); err != nil {
			return 0, err
		}
	}
}

// frame reads the next message of a watch.
func (r *reader) frame() ([]byte, error) {
	head, err := r.take(4)
	if err != nil {
		return nil, err
	}
	return r.take(int(binary.BigEndian.Uint32(head)))
}
