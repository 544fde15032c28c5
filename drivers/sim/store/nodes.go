package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// A store with Options.Nodes behaves like Kubernetes: it holds node objects,
// whose pod CIDRs are the subnets and whose annotations are the leases, and a
// client is the node object of its name. Streams, compaction (a Kubernetes
// client sees 410 Gone), outages and the fates of requests are those of any
// store. The production code interprets the annotations.

// nodeNames are the names of the annotations; their prefix does not matter
// here.
var nodeNames, _ = nodelease.ParsePrefix(nodelease.DefaultPrefix)

// nodeObject is a node object as of a revision.
type nodeObject struct {
	node     nodelease.Node
	revision int64
}

// nodeStore holds the nodes of a store.
type nodeStore struct {
	objects map[string]nodeObject
	truth   *nodelease.Table // for a reader that is no node and has seen every version
	born    int              // counts the nodes that ever registered
}

var (
	errNoNode   = errors.New("no such node object")
	errReplaced = errors.New("the node object has been replaced")
)

// NodeWrite is a change of a node object; Old or New is nil if there was or is none.
type NodeWrite struct {
	Client   string // "" for any other writer
	Name     string
	Old, New *nodelease.Node
}

// Kubernetes reports whether leases are on node objects.
func (s *Store) Kubernetes() bool { return s.nodes != nil }

// OnNodeWrite passes every change of a node object to fn after it was made. The
// function must not change the world.
func (s *Store) OnNodeWrite(fn func(NodeWrite)) { s.nodeWritten = fn }

// Node returns a node object.
func (s *Store) Node(name string) (nodelease.Node, bool) {
	o, ok := s.nodes.objects[name]
	return o.node, ok
}

// PutNode registers a node, as kubelet does, with its pod CIDRs from the
// controller manager, separated by commas; "": none yet. If the node exists,
// PutNode changes only its pod CIDRs.
func (s *Store) PutNode(name, podCIDRs string) error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("put node %s: %w", name, err)
	}
	n, exists := s.Node(name)
	if !exists {
		s.nodes.born++
		n = nodelease.Node{Name: name, UID: fmt.Sprintf("uid-%d", s.nodes.born), Created: int64(s.nodes.born)}
	}
	n.PodCIDRs = podCIDRs
	s.putNode(n)
	return nil
}

// AnnotateNode changes annotations of a node, as an operator or another program
// does.
func (s *Store) AnnotateNode(name string, change func(*nodelease.Node)) error {
	n, exists := s.Node(name)
	if err := s.Unavailable(); err != nil || !exists {
		return fmt.Errorf("annotate node %s: %w", name, errors.Join(err, errNoNode))
	}
	change(&n)
	s.putNode(n)
	return nil
}

// DeleteNode removes a node object, if there is one.
func (s *Store) DeleteNode(name string) error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	old, exists := s.Node(name)
	if !exists {
		return nil
	}
	s.count()
	delete(s.nodes.objects, name)
	s.nodes.truth.Delete(name, s.revision)
	s.world.Note("store: delete node", fmt.Sprintf("%s rev %d", name, s.revision))
	s.publishNodes()
	s.tellNode(NodeWrite{s.writer, name, &old, nil})
	return nil
}

// putNode writes a node object. Like an API server it writes nothing, and counts no revision, if nothing changes.
func (s *Store) putNode(n nodelease.Node) {
	old, existed := s.Node(n.Name)
	if existed && old == n {
		return
	}
	s.count()
	s.nodes.objects[n.Name] = nodeObject{n, s.revision}
	s.nodes.truth.Set(n, s.revision)
	s.world.Note("store: put node", fmt.Sprintf("%s rev %d %s %s %q", n.Name, s.revision, n.UID, n.PodCIDRs, n.Values))
	s.publishNodes()
	w := NodeWrite{Client: s.writer, Name: n.Name, New: &n}
	if existed {
		w.Old = &old
	}
	s.tellNode(w)
}

func (s *Store) tellNode(w NodeWrite) {
	if s.nodeWritten != nil {
		s.nodeWritten(w)
	}
}

// publishNodes makes the version that follows a change of the nodes, and tells
// all clients.
func (s *Store) publishNodes() {
	s.former, s.version = s.version, s.nodeVersion()
	for _, st := range s.streams {
		st.dirty = true
		st.pump()
	}
}

// nodeVersion combines all nodes into a version.
func (s *Store) nodeVersion() *storeVersion {
	snap, _ := s.nodes.truth.Snapshot()
	v := &storeVersion{epoch: s.epoch, snap: snap, nodes: make([]nodeObject, 0, len(s.nodes.objects))}
	for _, name := range slices.Sorted(maps.Keys(s.nodes.objects)) {
		v.nodes = append(v.nodes, s.nodes.objects[name])
	}
	return v
}

// clearNodes empties the store of nodes.
func (s *Store) clearNodes() {
	if s.opts.Nodes == "" {
		return
	}
	born := 0
	if s.nodes != nil {
		born = s.nodes.born
	}
	s.nodes = &nodeStore{objects: map[string]nodeObject{}, truth: s.nodeTable(""), born: born}
	s.nodes.truth.List().End(s.revision)
	s.version = s.nodeVersion()
	s.former = s.version
}

// nodeTable returns the table of a client: its config comes from a file, and
// not from the store.
func (s *Store) nodeTable(name string) *nodelease.Table {
	network, err := config.ParseAssigned([]byte(s.opts.Nodes))
	if err != nil {
		panic(fmt.Sprintf("store: network config: %v", err))
	}
	return nodelease.NewTable(name, lease.Document{Data: []byte(s.opts.Nodes), Revision: 1 + s.configs}, network)
}

// configDelay is the longest time until a node reads a changed network config: kubelet
// replaces the file about a minute after its ConfigMap has changed.
const configDelay = time.Minute

// SetNetConfig changes the ConfigMap with the network config of a Kubernetes cluster.
// Each running client reads the new one some time later.
func (s *Store) SetNetConfig(text string) error {
	network, err := config.ParseAssigned([]byte(text))
	if err != nil {
		return err
	}
	s.opts.Nodes = text
	s.configs++
	doc := lease.Document{Data: []byte(text), Revision: 1 + s.configs}
	s.world.Note("store: ConfigMap", text)
	s.nodes.truth.SetConfig(doc, network)
	s.former, s.version = s.version, s.nodeVersion()
	for _, c := range s.clients {
		s.world.After(world.UpTo(c.rng.watch, configDelay), c.label.batch, func() {
			c.arrive(func() { c.readConfig(doc, network) })
		})
	}
	if s.written != nil {
		s.written(Write{Key: "config", New: &Record{Value: text}})
	}
	return nil
}

// readConfig takes over a network config, unless a newer one is known already, or it leaves out the node's own subnet.
func (c *Client) readConfig(doc lease.Document, network config.Network) {
	if doc.Revision <= c.nodes.config || c.nodes.table.LeavesOut(network) != nil {
		return
	}
	c.nodes.config = doc.Revision
	c.nodes.table.SetConfig(doc, network)
	if c.known != nil {
		c.setView(lease.View{Snapshot: c.nodesSeen(), Synced: c.view.Synced, Err: c.view.Err})
	}
}

// nodeClient holds a client's knowledge of node objects.
type nodeClient struct {
	table    *nodelease.Table
	assigned *lease.Assigned
	config   int64 // the revision of the network config
	written  int64 // the revision of the last answer to a request; a view never goes back behind it
}

func (s *Store) newNodeClient(name string) nodeClient {
	if s.opts.Nodes == "" {
		return nodeClient{}
	}
	return nodeClient{table: s.nodeTable(name), config: 1 + s.configs, assigned: &lease.Assigned{Err: errStoreStarting}}
}

// acceptNodes takes over a version.
func (c *Client) acceptNodes(v *storeVersion) *lease.Snapshot {
	l := c.nodes.table.List()
	for _, o := range v.nodes {
		l.Add(o.node, o.revision)
	}
	l.End(v.snap.Revision)
	return c.nodesSeen()
}

func (c *Client) nodesSeen() (snap *lease.Snapshot) {
	snap, c.nodes.assigned = c.nodes.table.Snapshot()
	return snap
}

// patch is a request in Kubernetes' form: changes of the client's own node
// object.
type patch struct {
	client  *Client
	grant   lease.Grant
	uid     string
	changes map[string]string
	result  nodeObject
}

// prepare returns the patch to send, which may be empty. It relies only on the
// client's knowledge.
func (c *Client) prepare(req node.Request) (*patch, error) {
	key := req.Key
	if req.Verb != node.Create {
		key = req.Grant.Key
	}
	own, seen := c.nodes.table.Node(c.name)
	switch {
	case req.Verb == node.Move:
		return nil, errors.New("the cluster assigns the subnets")
	case req.Verb == node.Renew || req.Verb == node.Release:
		return &patch{client: c, grant: req.Grant}, nil
	case seen == 0 || c.nodes.assigned.Key != key:
		return nil, fmt.Errorf("%w: node %s has pod CIDRs %q", lease.ErrLost, c.name, own.PodCIDRs)
	}
	p := &patch{client: c, uid: own.UID, changes: own.Changes(nodeNames, req.Attrs)}
	p.grant.Lease = lease.Lease{
		Key: key, Attrs: req.Attrs, CreateRevision: own.CreateRevision(), ModRevision: c.nodes.table.Revision(),
	}
	return p, nil
}

// serve changes the node object, at the server.
func (p *patch) serve() (lease.Grant, error) {
	s := p.client.store
	if err := p.client.refused(); err != nil {
		return lease.Grant{}, err
	}
	n, exists := s.Node(p.client.name)
	switch {
	case !exists:
		return lease.Grant{}, fmt.Errorf("%w: %w", lease.ErrLost, errNoNode)
	case n.UID != p.uid:
		return lease.Grant{}, fmt.Errorf("%w: %w", lease.ErrLost, errReplaced)
	}
	for name, value := range p.changes {
		a, _ := nodeNames.Find([]byte(name))
		n.Values[a] = value
	}
	s.by(p.client.name, func() { s.putNode(n) })
	p.result = s.nodes.objects[n.Name]
	p.grant.ModRevision = p.result.revision
	return p.grant, nil
}

// answered records the answer: the client knows its own write, even before its
// stream brings it.
func (p *patch) answered() {
	c := p.client
	c.nodes.table.Set(p.result.node, p.result.revision)
	c.nodes.written = max(c.nodes.written, p.result.revision)
	v := c.view
	v.Snapshot = c.nodesSeen()
	c.setView(v)
}

// doNodes is Do for a store of nodes.
func (c *Client) doNodes(req node.Request, done func(node.Requested)) {
	p, err := c.prepare(req)
	if err != nil || len(p.changes) == 0 {
		c.store.world.After(0, c.label.down, func() {
			c.arrive(func() {
				if err != nil {
					done(node.Requested{Err: storeError(req, err)})
					return
				}
				done(node.Requested{Grant: p.grant})
			})
		})
		return
	}
	x := c.exchange(req, func(r node.Requested) {
		if r.Err == nil {
			p.answered()
		}
		done(r)
	})
	x.act = p.serve
	x.decide()
}

// callNodes is call for a store of nodes.
func (c *Client) callNodes(req node.Request) (lease.Grant, error) {
	p, err := c.prepare(req)
	if err == nil && len(p.changes) > 0 {
		_, err = p.serve()
		if err == nil {
			p.answered()
		}
	}
	if err != nil {
		return lease.Grant{}, storeError(req, err)
	}
	return p.grant, nil
}

// NodeCIDRs formats pod CIDRs as PutNode takes them.
func NodeCIDRs(k lease.Key) string {
	var all []string
	for _, f := range cidr.Families {
		if p := k.Of(f); p.IsValid() {
			all = append(all, p.String())
		}
	}
	return strings.Join(all, ",")
}
