package kubetest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const protobuf = runtime.ContentTypeProtobuf

// message is any of the API's types.
type message interface{ Marshal() ([]byte, error) }

func must(b []byte, err error) []byte {
	if err != nil {
		panic(fmt.Sprintf("kubetest: %v", err))
	}
	return b
}

// wrap puts an object into its envelope.
func wrap(kind string, m message) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: must(m.Marshal())}
	return append([]byte("k8s\x00"), must(u.Marshal())...)
}

// frame is an event as it goes over a watch.
func frame(kind string, m message) []byte {
	object := "Node"
	switch m.(type) {
	case *metav1.Status:
		object = "Status"
	case *metav1.PartialObjectMetadata:
		object = "PartialObjectMetadata"
	}
	e := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: wrap(object, m)}}
	body := must(e.Marshal())
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func bookmark(revision int64, complete bool) *corev1.Node {
	n := &corev1.Node{}
	n.ResourceVersion = strconv.FormatInt(revision, 10)
	if complete {
		n.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return n
}

func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", protobuf)
	_, _ = w.Write(body) // a client that hung up gets none
}

func refuse(w http.ResponseWriter, st metav1.Status) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(st.Code))
	_ = json.NewEncoder(w).Encode(st)
}

func status(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func expired() metav1.Status {
	return status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
}

// Gone returns the event by which a watch learns that its revision is too old.
func Gone() []byte {
	st := expired()
	return frame("ERROR", &st)
}

func tooLarge() metav1.Status {
	st := status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version")
	st.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}
	return st
}

func notFound(resource, name string) metav1.Status {
	return status(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", resource, name))
}

// Forbidden returns the answer to a request without the RBAC rule.
func Forbidden(what string) *metav1.Status {
	st := status(http.StatusForbidden, metav1.StatusReasonForbidden, what+" is forbidden")
	return &st
}

// Unavailable returns the answer of an unavailable API server.
func Unavailable() *metav1.Status {
	st := status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "no")
	return &st
}

func readAll(r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	return string(b)
}
