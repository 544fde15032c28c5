package cloudtest

import (
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// GCE is Compute Engine's REST API, with the metadata service.
type GCE struct {
	cloud      *Cloud
	Hostname   string // if not the instance's name; the service then knows no name
	NoAccount  bool   // the instance has no service account
	CanForward bool
	TokenLife  time.Duration
	Slow       int // questions until an operation is done
	Refuse     Trouble
	Key        *rsa.PrivateKey // of the account whose key is in a file

	operations map[string]*gceOperation
	requests   map[string]string // numbers of requests, with their operations
	tokens     map[string]time.Time

	// Priorities and Tags are those of all routes that clients asked for.
	Priorities []int
	Tags       []string
}

type gceOperation struct {
	left    int
	trouble Trouble
}

const (
	gceProject  = "example.com:my-project"
	gceZone     = "europe-west1-b"
	gceName     = "node-7"
	gceNetwork  = "kube"
	gceToken    = "ya29.token-of-the-account-"
	gceMetadata = "/computeMetadata/v1"
)

// NewGCE returns a fake.
func NewGCE() *GCE {
	f := &GCE{
		CanForward: true, TokenLife: time.Hour, operations: map[string]*gceOperation{}, requests: map[string]string{},
		tokens: map[string]time.Time{},
	}
	instances := "projects/" + gceProject + "/zones/" + gceZone + "/instances/"
	f.cloud = &Cloud{
		Self: instances + gceName, Other: instances + "node-8", TableIDs: []string{gceNetwork},
		Names: Names{
			List: "GET routes", Create: "POST routes", Delete: "DELETE routes", Limit: "100 routes", Pages: true,
			Rights: map[string]string{
				"GET routes": "compute.routes.list", "POST routes": "compute.routes.create",
				"DELETE routes": "compute.routes.delete",
			},
			Probe: gceMetadata + "/instance/zone",
		},
	}
	f.cloud.Put(Entry{ID: "default-route-1234", Dst: netip.MustParsePrefix("10.132.0.0/20"), Hop: "network", System: true})
	return f
}

// Cloud returns the state.
func (f *GCE) Cloud() *Cloud { return f.cloud }

// Options returns the daemon's options.
func (f *GCE) Options() api.Options { return api.Options{} }

// MetadataPath is the path that an address of the metadata service has.
func (f *GCE) MetadataPath() string { return gceMetadata }

// Quick makes operations end at once, for a test in real time.
func (f *GCE) Quick() { f.Slow = 0 }

// ID returns the name that flannel gives a route.
func (f *GCE) ID(e Entry) string {
	return "flannel-" + strings.NewReplacer(".", "-", "/", "-").Replace(e.Dst.String())
}

func (f *GCE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, gceMetadata) {
		f.cloud.host(r, "169.254.169.254")
		f.metadata(w, r)
		return
	}
	if r.URL.Path == gceTokenPath {
		f.cloud.host(r, "oauth2.googleapis.com")
		f.tokenForKey(w, r)
		return
	}
	f.cloud.host(r, "compute.googleapis.com")
	f.cloud.present = []string{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	fail := func(trouble Trouble, text string) { failGCE(w, trouble, text) }
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if end, known := f.tokens[token]; !known || time.Now().After(end) {
		fail(BadKeys, "unknown token")
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/compute/v1/projects/"+gceProject+"/")
	if !ok {
		fail(Missing, "no such project")
		return
	}
	switch {
	case rest == "global/routes" || strings.HasPrefix(rest, "global/routes/"):
		f.cloud.carry(w, r, r.Method+" routes", fail, func(w http.ResponseWriter) {
			f.routes(w, r, strings.TrimPrefix(strings.TrimPrefix(rest, "global/routes"), "/"))
		})
	case strings.HasPrefix(rest, "global/operations/"):
		f.cloud.carry(w, r, "operations", fail, func(w http.ResponseWriter) {
			f.operation(w, strings.TrimPrefix(rest, "global/operations/"))
		})
	case rest == "zones/"+gceZone+"/instances/"+gceName:
		json.NewEncoder(w).Encode(map[string]any{"name": gceName, "canIpForward": f.CanForward})
	default:
		fail(Missing, "no such resource")
	}
}

func (f *GCE) metadata(w http.ResponseWriter, r *http.Request) {
	if f.cloud.Gone || r.Header.Get("Metadata-Flavor") != "Google" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Metadata-Flavor", "Google")
	fail := func(Trouble, string) { http.Error(w, "trouble", http.StatusServiceUnavailable) }
	f.cloud.carry(w, r, r.URL.Path, fail, func(w http.ResponseWriter) {
		text, ok := f.fact(strings.TrimPrefix(r.URL.Path, gceMetadata))
		if !ok {
			http.NotFound(w, r)
			return
		}
		if f.cloud.Rubbish {
			token := gceToken + "rubbish"
			f.cloud.addSecret(token)
			text = "<html>" + token
		}
		io.WriteString(w, text)
	})
}

func (f *GCE) fact(path string) (string, bool) {
	switch path {
	case "/instance/network-interfaces/0/network":
		return "projects/4711/networks/" + gceNetwork, true
	case "/project/project-id":
		return gceProject, true
	case "/instance/zone":
		return "projects/4711/zones/" + gceZone, true
	case "/instance/name":
		return gceName, f.Hostname == ""
	case "/instance/hostname":
		return f.Hostname, f.Hostname != ""
	case "/instance/service-accounts/default/token":
		if f.NoAccount {
			return "", false
		}
		return f.newToken(), true
	}
	return "", false
}

// gceReasons are Google's reasons, with the status of each.
var gceReasons = map[Trouble]struct {
	reason string
	status int
	code   string // in an operation
}{
	Throttle: {"rateLimitExceeded", 403, "RATE_LIMIT_EXCEEDED"}, Fail: {"backendError", 503, "INTERNAL_ERROR"},
	Deny: {"forbidden", 403, "FORBIDDEN"}, BadKeys: {"authError", 401, ""},
	Exists: {"alreadyExists", 409, "RESOURCE_ALREADY_EXISTS"}, Missing: {"notFound", 404, "RESOURCE_NOT_FOUND"},
	Full: {"quotaExceeded", 403, "QUOTA_EXCEEDED"}, Busy: {"resourceNotReady", 400, "RESOURCE_NOT_READY"},
	Invalid: {"invalid", 400, "INVALID_USAGE"},
}

func failGCE(w http.ResponseWriter, trouble Trouble, text string) {
	kind := gceReasons[trouble]
	w.WriteHeader(kind.status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": kind.status, "message": text, "errors": []any{map[string]string{"reason": kind.reason, "message": text}},
	}})
}

func (f *GCE) routes(w http.ResponseWriter, r *http.Request, name string) {
	switch r.Method {
	case http.MethodGet:
		f.list(w, r)
	case http.MethodPost:
		var in struct {
			Name, Network, DestRange, NextHopInstance string
			Priority                                  int
			Tags                                      []string
		}
		err := json.NewDecoder(r.Body).Decode(&in)
		dst, _ := netip.ParsePrefix(in.DestRange)
		f.Priorities, f.Tags = append(f.Priorities, in.Priority), append(f.Tags, in.Tags...)
		if err != nil || in.Priority != 1000 || !strings.HasSuffix(in.Network, "/networks/"+gceNetwork) ||
			!strings.HasPrefix(in.Network, "projects/"+gceProject+"/global/") {
			failGCE(w, Invalid, "the route is none")
			return
		}
		f.begin(w, r, func() Trouble {
			return f.cloud.create(Entry{ID: in.Name, Table: gceNetwork, Dst: dst, Hop: in.NextHopInstance},
				func(old Entry) bool { return old.ID == in.Name })
		})
	case http.MethodDelete:
		f.begin(w, r, func() Trouble {
			return f.cloud.remove(func(e Entry) bool { return e.ID == name && !e.System })
		})
	}
}

// begin starts an operation, once for each number of a request. What is refused
// at once is no operation.
func (f *GCE) begin(w http.ResponseWriter, r *http.Request, do func() Trouble) {
	number := r.URL.Query().Get("requestId")
	name, known := f.requests[number]
	if !known || number == "" {
		trouble := do()
		if trouble == Exists || trouble == Missing {
			failGCE(w, trouble, "no")
			return
		}
		if f.Refuse != Fine {
			trouble = f.Refuse
		}
		name = fmt.Sprintf("operation-%d", len(f.operations))
		f.operations[name] = &gceOperation{left: f.Slow, trouble: trouble}
		f.requests[number] = name
	}
	if f.Slow == 0 {
		f.operation(w, name)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"name": name, "status": "PENDING"})
}

func (f *GCE) operation(w http.ResponseWriter, name string) {
	op, known := f.operations[name]
	if !known {
		failGCE(w, Missing, "no such operation")
		return
	}
	answer := map[string]any{"name": name, "status": "RUNNING"}
	if op.left == 0 {
		answer["status"] = "DONE"
		if op.trouble != Fine {
			kind := gceReasons[op.trouble]
			answer["httpErrorStatusCode"] = kind.status
			answer["error"] = map[string]any{"errors": []any{map[string]string{"code": kind.code, "message": "no"}}}
		}
	}
	op.left = max(op.left-1, 0)
	json.NewEncoder(w).Encode(answer)
}

func (f *GCE) list(w http.ResponseWriter, r *http.Request) {
	const links = "https://www.googleapis.com/compute/v1/"
	items := []any{map[string]any{ // of another network
		"name": "flannel-10-40-99-0-24", "network": links + "projects/" + gceProject + "/global/networks/other",
		"destRange": "10.40.99.0/24", "nextHopInstance": links + f.cloud.Self,
	}}
	for _, e := range f.cloud.list(gceNetwork) {
		item := map[string]any{
			"name": e.ID, "network": links + "projects/" + gceProject + "/global/networks/" + gceNetwork,
			"destRange": e.Dst.String(), "priority": 1000, "routeType": "STATIC", "nextHopInstance": links + e.Hop,
		}
		if e.System {
			delete(item, "nextHopInstance")
			item["nextHopNetwork"] = links + "projects/" + gceProject + "/global/networks/" + gceNetwork
			item["routeType"] = "SUBNET"
		}
		switch e.State {
		case cloud.Pending:
			item["routeStatus"] = "PENDING"
		case cloud.Broken:
			item["warnings"] = []any{map[string]string{"code": "NEXT_HOP_NOT_RUNNING"}}
		}
		items = append(items, item)
	}
	from, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	answer := map[string]any{"items": items}
	if size := f.cloud.PageSize; size > 0 {
		to := min(from+size, len(items))
		answer["items"] = items[min(from, to):to]
		if to < len(items) {
			answer["nextPageToken"] = strconv.Itoa(to)
		}
	}
	json.NewEncoder(w).Encode(answer)
}
