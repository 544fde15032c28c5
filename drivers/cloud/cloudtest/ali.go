package cloudtest

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// Ali is Alibaba Cloud's VPC API, with the metadata service.
type Ali struct {
	cloud  *Cloud
	Region string
	nonces map[string]bool
	tokens map[string]string // of requests, with the entry that each made
}

const (
	aliKey, aliSecret = "LTAIfakefakefakefake", "ali+secret/of=the config"
	aliVPC, aliRouter = "vpc-bp1", "vrt-bp1"
	aliMetadata       = "/latest/meta-data"
)

// NewAli returns a fake.
func NewAli() *Ali {
	f := &Ali{Region: "cn-hangzhou", nonces: map[string]bool{}, tokens: map[string]string{}}
	f.cloud = &Cloud{
		Self: "i-bp1self", Other: "i-bp1other", TableIDs: []string{"vtb-bp1"},
		secrets: []string{aliKey, aliSecret}, present: []string{aliKey, aliSecret},
		Names: Names{
			List: "DescribeRouteEntryList", Create: "CreateRouteEntry", Delete: "DeleteRouteEntry", Limit: "50 custom entries",
			Rights: map[string]string{
				"DescribeRouteEntryList": "vpc:DescribeRouteEntryList", "CreateRouteEntry": "vpc:CreateRouteEntry",
				"DeleteRouteEntry": "vpc:DeleteRouteEntry",
			},
			Pages: true, Probe: aliMetadata + "/instance-id",
		},
	}
	f.cloud.Put(Entry{ID: "rte-system", Dst: netip.MustParsePrefix("172.16.0.0/24"), Hop: "local", System: true})
	return f
}

// Cloud returns the state.
func (f *Ali) Cloud() *Cloud { return f.cloud }

// Options returns the daemon's options.
func (f *Ali) Options() api.Options {
	return api.Options{AccessKeyID: aliKey, AccessKeySecret: aliSecret}
}

// MetadataPath is the path that an address of the metadata service has.
func (f *Ali) MetadataPath() string { return aliMetadata }

func (f *Ali) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, aliMetadata) {
		f.cloud.host(r, "100.100.100.200")
		facts := map[string]string{"/region-id": f.Region, "/instance-id": f.cloud.Self, "/vpc-id": aliVPC}
		f.cloud.metadata(w, r, aliMetadata, facts)
		return
	}
	f.cloud.host(r, "vpc."+f.Region+".aliyuncs.com")
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	fail := func(trouble Trouble, text string) { failAli(w, trouble, text) }
	if err == nil {
		err = f.check(r.Method, form)
	}
	if err != nil {
		fail(BadKeys, err.Error())
		return
	}
	f.cloud.carry(w, r, form.Get("Action"), fail, func(w http.ResponseWriter) { f.action(w, form) })
}

// check checks the signature of a form.
func (f *Ali) check(method string, form url.Values) error {
	at, err := time.Parse("2006-01-02T15:04:05Z", form.Get("Timestamp"))
	if err != nil {
		return err
	}
	switch d := time.Since(at); {
	case d > skew || d < -skew:
		return errors.New("InvalidTimeStamp.Expired")
	case form.Get("Version") != "2016-04-28" || form.Get("Format") != "JSON" || form.Get("RegionId") != f.Region:
		return errors.New("a parameter of all requests is wrong")
	case form.Get("SignatureMethod") != "HMAC-SHA1" || form.Get("SignatureVersion") != "1.0":
		return errors.New("another signature")
	case form.Get("AccessKeyId") != aliKey:
		return errors.New("InvalidAccessKeyId.NotFound")
	case f.nonces[form.Get("SignatureNonce")]:
		return errors.New("SignatureNonceUsed")
	case signatureAli(method, form, aliSecret) != form.Get("Signature"):
		return errors.New("SignatureDoesNotMatch")
	}
	f.nonces[form.Get("SignatureNonce")] = true
	return nil
}

// percent encodes a text as the signature wants it.
func percent(s string) string {
	return strings.NewReplacer("+", "%20", "*", "%2A", "%7E", "~").Replace(url.QueryEscape(s))
}

// signatureAli computes the signature that a form should have.
func signatureAli(method string, form url.Values, secret string) string {
	var names []string
	for name := range form {
		if name != "Signature" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	text := ""
	for i, name := range names {
		if i > 0 {
			text += "&"
		}
		text += percent(name) + "=" + percent(form.Get(name))
	}
	h := hmac.New(sha1.New, []byte(secret+"&"))
	io.WriteString(h, method+"&%2F&"+percent(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// aliCodes are Alibaba's codes, with the status of each.
var aliCodes = map[Trouble]struct {
	code   string
	status int
}{
	Throttle: {"Throttling.User", 400}, Fail: {"InternalError", 500}, Deny: {"Forbidden.RAM", 403},
	BadKeys: {"SignatureDoesNotMatch", 400}, Exists: {"RouterEntryConflict.Duplicated", 400},
	Missing: {"InvalidRouteEntry.NotFound", 404}, Full: {"QuotaExceeded", 400}, Busy: {"TaskConflict", 409},
	Invalid: {"InvalidParameter", 400},
}

func failAli(w http.ResponseWriter, trouble Trouble, text string) {
	kind := aliCodes[trouble]
	w.WriteHeader(kind.status)
	json.NewEncoder(w).Encode(map[string]string{"Code": kind.code, "Message": text, "RequestId": "1"})
}

func (f *Ali) action(w http.ResponseWriter, form url.Values) {
	dst, _ := netip.ParsePrefix(form.Get("DestinationCidrBlock"))
	table := form.Get("RouteTableId")
	trouble := Fine
	answer := map[string]any{"RequestId": "1"}
	switch form.Get("Action") {
	case "DescribeVpcs":
		answer["Vpcs"] = map[string]any{"Vpc": []any{map[string]string{"VpcId": aliVPC, "VRouterId": aliRouter}}}
	case "DescribeVRouters":
		answer["VRouters"] = map[string]any{"VRouter": []any{map[string]any{
			"VRouterId": aliRouter, "RouteTableIds": map[string]any{"RouteTableId": []string{f.cloud.TableIDs[0], "vtb-bp2"}},
		}}}
	case "DescribeRouteEntryList":
		f.entries(answer, form)
	case "CreateRouteEntry":
		trouble = f.create(Entry{Table: table, Dst: dst, Hop: form.Get("NextHopId")}, form)
	case "DeleteRouteEntry":
		trouble = f.cloud.remove(func(e Entry) bool {
			return e.Table == table && e.Dst == dst && !e.System && e.ID == form.Get("RouteEntryId") &&
				strings.Contains(e.Hop, ",") != form.Has("NextHopId") && (e.Hop == form.Get("NextHopId") || !form.Has("NextHopId"))
		})
	default:
		trouble = Invalid
	}
	if trouble != Fine {
		failAli(w, trouble, "no")
		return
	}
	json.NewEncoder(w).Encode(answer)
}

// create makes an entry, once for each token.
func (f *Ali) create(e Entry, form url.Values) Trouble {
	token := form.Get("ClientToken")
	switch {
	case token != "" && f.tokens[token] == e.Dst.String():
		return Fine
	case form.Get("NextHopType") != "Instance":
		return Invalid
	}
	trouble := f.cloud.create(e, func(old Entry) bool { return old.Dst == e.Dst })
	if trouble == Fine {
		f.tokens[token] = e.Dst.String()
	}
	return trouble
}

func (f *Ali) entries(answer map[string]any, form url.Values) {
	var items []any
	for _, e := range f.cloud.list(form.Get("RouteTableId")) {
		kind, status := "Custom", "Available"
		if e.System {
			kind = "System"
		}
		switch e.State {
		case cloud.Pending:
			status = "Pending"
		case cloud.Broken:
			status = "Invalid"
		}
		var hops []any
		for hop := range strings.SplitSeq(e.Hop, ",") {
			hops = append(hops, map[string]any{"NextHopId": hop, "NextHopType": "Instance", "Enabled": 1})
		}
		items = append(items, map[string]any{
			"RouteEntryId": e.ID, "RouteTableId": e.Table, "DestinationCidrBlock": e.Dst.String(), "Type": kind,
			"Status": status, "NextHops": map[string]any{"NextHop": hops},
		})
	}
	from, _ := strconv.Atoi(form.Get("NextToken"))
	to := len(items)
	if size := f.cloud.PageSize; size > 0 {
		to = min(from+size, len(items))
	}
	if to < len(items) {
		answer["NextToken"] = strconv.Itoa(to)
	}
	answer["RouteEntrys"] = map[string]any{"RouteEntry": items[min(from, to):to]}
}
