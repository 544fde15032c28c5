package api

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
)

// metadataFor bounds one request to a metadata service, which answers from the
// host itself.
const metadataFor = 3 * time.Second

// Metadata reads the instance's facts from the metadata service. Its address is a
// constant of the provider, and no peer or config can change it.
type Metadata struct {
	client *http.Client
	base   string
	header http.Header // that each request has
	answer http.Header // that each answer must have
}

// NewMetadata returns the reader of a service. Each request has the one header, and
// each answer must have the other.
func NewMetadata(o Options, base string, header, answer http.Header) *Metadata {
	if o.Metadata != "" {
		base = o.Metadata
	}
	return &Metadata{client: MetadataHTTP(o), base: strings.TrimSuffix(base, "/"), header: header, answer: answer}
}

// MetadataHTTP returns a client for a metadata service: without a proxy, which
// would answer for its own host, and without redirects.
func MetadataHTTP(o Options) *http.Client {
	transport := o.Transport
	if transport == nil {
		direct := http.DefaultTransport.(*http.Transport).Clone()
		direct.Proxy = nil
		transport = direct
	}
	return &http.Client{Transport: transport, CheckRedirect: stay, Timeout: metadataFor}
}

// plain is the form of every fact that clients read: ids, names and paths of them.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,255}$`)

// Get reads one fact. A service that does not answer as it should is
// [cloud.ErrNoIdentity]. The texts of errors hold nothing of the answer, which may
// be a credential.
func (m *Metadata) Get(ctx context.Context, path string) (string, error) {
	body, err := m.Read(ctx, path)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(body))
	if !plain.MatchString(value) || strings.Contains(value, "..") {
		return "", m.fault(path, fmt.Sprintf("the answer, of %d bytes, is no name", len(body)), false)
	}
	return value, nil
}

// Read reads a document, with the same errors.
func (m *Metadata) Read(ctx context.Context, path string) ([]byte, error) {
	var body []byte
	err := Retry(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+path, nil)
		if err != nil {
			return m.fault(path, err.Error(), false)
		}
		for name, values := range m.header {
			req.Header[name] = values
		}
		reply, err := Send(m.client, req, doingMetadata(path), nil)
		if err != nil {
			f := err.(*Fault)
			f.Class = cloud.ErrNoIdentity
			return f
		}
		if reply.Status != http.StatusOK {
			f := m.fault(path, "", reply.Status >= 500 || reply.Status == http.StatusTooManyRequests)
			f.Code = StatusCode(reply.Status)
			return f
		}
		for name := range m.answer {
			if reply.Header.Get(name) != m.answer.Get(name) {
				return m.fault(path, "the answer lacks the header "+name, false)
			}
		}
		body = reply.Body
		return nil
	})
	return body, err
}

// StatusCode is the code of a fault that has only a status.
func StatusCode(status int) string { return fmt.Sprintf("status %d", status) }

func doingMetadata(path string) string { return "metadata service, " + path }

func (m *Metadata) fault(path, text string, temporary bool) *Fault {
	return &Fault{Class: cloud.ErrNoIdentity, Doing: doingMetadata(path), Text: text, Temporary: temporary}
}
