package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Server is an [http.Handler]. Its methods are the actions of an operator and
// of the rest of Kubernetes, and faults.
type Server struct {
	mux *http.ServeMux

	mu        sync.Mutex
	news      *sync.Cond
	revision  int64
	compacted int64
	nodes     map[string]*corev1.Node
	pods      map[string]string // "namespace/name" to node
	events    []event
	spelt     map[string]spelt
	epoch     int // raised to end all watches
	uids      int
	plain     bool // without streaming lists
	fail      func(*http.Request) *metav1.Status
	requests  []string
	patches   []string
	reported  []corev1.Event
}

// event is an event of a watch, as one of whole objects and as one of metadata have it.
type event struct {
	revision        int64
	whole, metadata []byte
}

// New returns a server without nodes.
func New() *Server {
	s := &Server{
		mux:      http.NewServeMux(),
		revision: 1,
		nodes:    map[string]*corev1.Node{},
		pods:     map[string]string{},
		spelt:    map[string]spelt{},
	}
	s.news = sync.NewCond(&s.mu)
	s.mux.HandleFunc("GET /api/v1/nodes", s.collection)
	s.mux.HandleFunc("GET /api/v1/nodes/{name}", s.get)
	s.mux.HandleFunc("PATCH /api/v1/nodes/{name}/status", s.patch)
	s.mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", s.pod)
	s.mux.HandleFunc("POST /api/v1/namespaces/{namespace}/events", s.report)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	var status *metav1.Status
	if s.fail != nil {
		status = s.fail(r)
	}
	s.mu.Unlock()
	if status != nil {
		refuse(w, *status)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Fail makes each request fail with the status that the function returns; a nil
// status serves the request. A nil function ends the fault.
func (s *Server) Fail(fail func(*http.Request) *metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// WithoutStreaming turns the server into an older one, without streaming lists.
func (s *Server) WithoutStreaming() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plain = true
}

// Requests lists all requests so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Patches lists the bodies of all patches so far.
func (s *Server) Patches() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.patches)
}

// Reported lists all events that were created so far.
func (s *Server) Reported() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reported)
}

// Put creates a node or replaces it. A new one gets a UID of its own. It panics if the pod CIDRs change, which the
// API server does not allow.
func (s *Server) Put(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(n.DeepCopy())
}

func (s *Server) put(n *corev1.Node) {
	kind := "MODIFIED"
	if old := s.nodes[n.Name]; old != nil {
		n.UID, n.CreationTimestamp = old.UID, old.CreationTimestamp
		if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, n.Spec.PodCIDRs) {
			panic("kubetest: node updates may not change podCIDRs") // as Kubernetes' validation says
		}
	} else {
		s.uids++
		kind, n.UID = "ADDED", types.UID(fmt.Sprintf("uid-%d", s.uids))
		if n.CreationTimestamp.IsZero() {
			n.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000+int64(s.uids), 0))
		}
	}
	s.nodes[n.Name] = n
	s.happened(kind, n)
}

// Change changes an existing node.
func (s *Server) Change(name string, change func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name].DeepCopy()
	change(n)
	s.put(n)
}

// Delete removes a node.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name].DeepCopy()
	delete(s.nodes, name)
	s.happened("DELETED", n)
}

// Node returns a node, or nil.
func (s *Server) Node(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name].DeepCopy()
}

// PutPod creates a pod on a node.
func (s *Server) PutPod(namespace, name, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[namespace+"/"+name] = node
}

// Compact forgets the history so far, and so ends all watches.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.events = s.revision, nil
	s.epoch++
	s.news.Broadcast()
}

// Break ends all watches.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.news.Broadcast()
}

// Bookmark tells all watches their revision.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	bookmark := frame("BOOKMARK", bookmark(s.revision, false))
	s.events = append(s.events, event{s.revision, bookmark, bookmark})
	s.news.Broadcast()
}

// Skip skips revisions, as changes of other objects than nodes do.
func (s *Server) Skip(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision += n
}

// Restore returns to an earlier state, as from a backup: the nodes are the
// given ones, and revisions count from there.
func (s *Server) Restore(revision int64, nodes ...*corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
	s.compacted = revision
	s.events = nil
	s.nodes = map[string]*corev1.Node{}
	for _, n := range nodes {
		s.nodes[n.Name] = n.DeepCopy()
	}
	s.epoch++
	s.news.Broadcast()
}

func (s *Server) happened(kind string, n *corev1.Node) {
	s.revision++
	n.ResourceVersion = strconv.FormatInt(s.revision, 10)
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta}
	s.events = append(s.events, event{s.revision, frame(kind, n), frame(kind, metadata)})
	s.news.Broadcast()
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	n := s.Node(r.PathValue("name"))
	s.mu.Lock()
	present := s.revision
	s.mu.Unlock()
	if from, _ := strconv.ParseInt(r.URL.Query().Get("resourceVersion"), 10, 64); from > present {
		refuse(w, tooLarge())
		return
	}
	if n == nil {
		refuse(w, notFound("nodes", r.PathValue("name")))
		return
	}
	answer(w, wrap("Node", n))
}

func (s *Server) pod(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	node, ok := s.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]
	s.mu.Unlock()
	if !ok {
		refuse(w, notFound("pods", r.PathValue("name")))
		return
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	p.Name, p.Namespace = r.PathValue("name"), r.PathValue("namespace")
	answer(w, wrap("Pod", p))
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	e := corev1.Event{}
	err := json.Unmarshal([]byte(readAll(r)), &e)
	if err != nil || e.Namespace != r.PathValue("namespace") {
		refuse(w, status(http.StatusBadRequest, metav1.StatusReasonBadRequest, "no event of this namespace"))
		return
	}
	s.mu.Lock()
	s.reported = append(s.reported, e)
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	answer(w, wrap("Event", &e))
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request) {
	var body strings.Builder
	kind := r.Header.Get("Content-Type")
	_, err := fmt.Fprint(&body, readAll(r))
	if err != nil || kind != string(types.StrategicMergePatchType) {
		refuse(w, status(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, kind))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches = append(s.patches, body.String())
	name := r.PathValue("name")
	old := s.nodes[name]
	if old == nil {
		refuse(w, notFound("nodes", name))
		return
	}
	n, err := merged(old, body.String())
	switch {
	case err != nil:
		refuse(w, status(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()))
		return
	case n.UID != old.UID:
		refuse(w, status(http.StatusConflict, metav1.StatusReasonConflict, "uid in precondition does not match"))
		return
	}
	n.Spec = old.Spec // which is not the subresource's
	s.put(n)
	answer(w, wrap("Node", n))
}

func merged(old *corev1.Node, patch string) (*corev1.Node, error) {
	text, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	text, err = strategicpatch.StrategicMergePatch(text, []byte(patch), corev1.Node{})
	if err != nil {
		return nil, err
	}
	n := &corev1.Node{}
	return n, json.Unmarshal(text, n)
}
