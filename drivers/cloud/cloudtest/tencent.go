package cloudtest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// Tencent is Tencent Cloud's VPC API, version 3, with the metadata service.
type Tencent struct {
	cloud   *Cloud
	Numbers bool // routes have numbers and no other ids
	NoLocal bool // a table does not list the VPC's own route
}

const (
	tencentKey, tencentSecret = "AKIDfakefakefakefakefakefakefakefake", "tencentSecretOfTheConfig00000000"
	tencentRegion             = "ap-guangzhou"
	tencentVPC, tencentTable  = "vpc-2at5y1pn", "rtb-l2h8d7c2"
	tencentMAC                = "52:54:00:AB:CD:EF"
	tencentMetadata           = "/latest/meta-data"
	tencentList               = "DescribeRouteTables"
)

// NewTencent returns a fake.
func NewTencent() *Tencent {
	f := &Tencent{}
	f.cloud = &Cloud{
		Self: "10.0.1.7", Other: "10.0.1.8", TableIDs: []string{tencentTable},
		secrets: []string{tencentKey, tencentSecret}, present: []string{tencentKey, tencentSecret},
		Names: Names{
			List: tencentList, Create: "CreateRoutes", Delete: "DeleteRoutes", Limit: "50 routes",
			Rights: map[string]string{
				tencentList: "vpc:" + tencentList, "CreateRoutes": "vpc:CreateRoutes", "DeleteRoutes": "vpc:DeleteRoutes",
			},
			Probe: tencentMetadata + "/mac",
		},
	}
	f.cloud.Put(Entry{ID: "1", Dst: netip.MustParsePrefix("10.0.0.0/16"), Hop: "Local", System: true})
	return f
}

// Cloud returns the state.
func (f *Tencent) Cloud() *Cloud { return f.cloud }

// Options returns the daemon's options.
func (f *Tencent) Options() api.Options {
	return api.Options{
		AccessKeyID: tencentKey, AccessKeySecret: tencentSecret, PublicIP: netip.MustParseAddr(f.cloud.Self),
	}
}

// MetadataPath is the path that an address of the metadata service has.
func (f *Tencent) MetadataPath() string { return tencentMetadata }

// ID returns a route's id as Tencent makes it.
func (f *Tencent) ID(e Entry) string {
	f.cloud.nextID++
	return strconv.Itoa(100 + f.cloud.nextID)
}

func (f *Tencent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, tencentMetadata) {
		f.cloud.host(r, "metadata.tencentyun.com")
		f.cloud.metadata(w, r, tencentMetadata, map[string]string{
			"/placement/region": tencentRegion, "/mac": tencentMAC,
			"/network/interfaces/macs/" + tencentMAC + "/vpc-id": tencentVPC,
		})
		return
	}
	f.cloud.host(r, "vpc.tencentcloudapi.com")
	body, _ := io.ReadAll(r.Body)
	fail := func(trouble Trouble, text string) { failTencent(w, trouble, text) }
	if err := f.check(r, string(body)); err != nil {
		fail(BadKeys, err.Error())
		return
	}
	f.cloud.carry(w, r, r.Header.Get("X-Tc-Action"), fail, func(w http.ResponseWriter) {
		f.action(w, r.Header.Get("X-Tc-Action"), body)
	})
}

// check checks a signature by TC3-HMAC-SHA256.
func (f *Tencent) check(r *http.Request, body string) error {
	parts, err := authorization(r, "TC3-HMAC-SHA256")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(r.Header.Get("X-Tc-Timestamp"), 10, 64)
	if err != nil {
		return err
	}
	at := time.Unix(seconds, 0).UTC()
	scope := []string{at.Format("2006-01-02"), "vpc", "tc3_request"}
	names := strings.Split(parts["SignedHeaders"], ";")
	switch d := time.Since(at); {
	case d > skew || d < -skew:
		return errors.New("AuthFailure.SignatureExpire")
	case r.Header.Get("X-Tc-Version") != "2017-03-12" || r.Header.Get("X-Tc-Region") != tencentRegion:
		return errors.New("another version or region")
	case parts["Credential"] != tencentKey+"/"+strings.Join(scope, "/"):
		return errors.New("AuthFailure.SecretIdNotFound")
	case !slices.Contains(names, "host") || !slices.Contains(names, "content-type"):
		return errors.New("the host or the type is not signed")
	}
	if signatureTC3(r, body, names, seconds, scope, tencentSecret) != parts["Signature"] {
		return errors.New("AuthFailure.SignatureFailure")
	}
	return nil
}

// signatureTC3 computes the signature that a request should have.
func signatureTC3(r *http.Request, body string, names []string, seconds int64, scope []string, secret string) string {
	canonical := strings.Join([]string{
		r.Method, "/", r.URL.RawQuery, signedHeaders(r, names), strings.Join(names, ";"), hashed(body),
	}, "\n")
	text := strings.Join([]string{
		"TC3-HMAC-SHA256", fmt.Sprint(seconds), strings.Join(scope, "/"), hashed(canonical),
	}, "\n")
	key := []byte("TC3" + secret)
	for _, part := range scope {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

// tencentCodes are Tencent's codes. The status is 200.
var tencentCodes = map[Trouble]string{
	Throttle: "RequestLimitExceeded", Fail: "InternalError", Deny: "UnauthorizedOperation",
	BadKeys: "AuthFailure.SignatureFailure", Exists: "InvalidParameterValue.Duplicate", Missing: "ResourceNotFound",
	Full: "LimitExceeded", Busy: "ResourceUnavailable", Invalid: "InvalidParameterValue",
}

func failTencent(w http.ResponseWriter, trouble Trouble, text string) {
	answerTencent(w, map[string]any{"Error": map[string]string{"Code": tencentCodes[trouble], "Message": text}})
}

func answerTencent(w io.Writer, content map[string]any) {
	content["RequestId"] = "1"
	json.NewEncoder(w).Encode(map[string]any{"Response": content})
}

// tencentRoute is a route in a request.
type tencentRoute struct {
	DestinationCidrBlock, GatewayType, GatewayID, RouteType, RouteItemID string
	RouteID                                                              json.Number
	Enabled                                                              bool
}

func (f *Tencent) action(w http.ResponseWriter, action string, body []byte) {
	var in struct {
		RouteTableID  string
		RouteTableIDs []string
		Routes        []tencentRoute
		Filters       []struct {
			Name   string
			Values []string
		}
		Limit, Offset string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		failTencent(w, Invalid, err.Error())
		return
	}
	trouble := Fine
	var tables []any
	switch action {
	case tencentList:
		byVPC := len(in.Filters) == 1 && in.Filters[0].Name == "vpc-id" &&
			slices.Equal(in.Filters[0].Values, []string{tencentVPC})
		if byVPC != slices.Equal(in.RouteTableIDs, []string{tencentTable}) {
			tables = []any{f.table()}
		}
	case "CreateRoutes":
		trouble = Invalid
		if len(in.Routes) == 1 && in.RouteTableID == tencentTable {
			trouble = f.create(in.Routes[0])
		}
	case "DeleteRoutes":
		trouble = f.cloud.remove(func(e Entry) bool {
			return e.Table == in.RouteTableID && len(in.Routes) == 1 && !e.System && f.is(e, in.Routes[0])
		})
	default:
		trouble = Invalid
	}
	if trouble != Fine {
		failTencent(w, trouble, "no")
		return
	}
	answerTencent(w, map[string]any{"RouteTableSet": tables, "TotalCount": len(tables)})
}

func (f *Tencent) is(e Entry, r tencentRoute) bool {
	if f.Numbers {
		return r.RouteID.String() == e.ID
	}
	return r.RouteItemID == "rti-"+e.ID
}

func (f *Tencent) create(r tencentRoute) Trouble {
	dst, err := netip.ParsePrefix(r.DestinationCidrBlock)
	if err != nil || r.GatewayType != "NORMAL_CVM" || r.RouteType != "USER" || !r.Enabled {
		return Invalid
	}
	same := func(old Entry) bool { return old.Dst == dst }
	return f.cloud.create(Entry{Table: tencentTable, Dst: dst, Hop: r.GatewayID}, same)
}

func (f *Tencent) table() map[string]any {
	routes := []any{}
	for _, e := range f.cloud.list(tencentTable) {
		if e.System && f.NoLocal {
			continue
		}
		route := map[string]any{
			"DestinationCidrBlock": e.Dst.String(), "GatewayType": "NORMAL_CVM", "GatewayId": e.Hop, "RouteType": "USER",
			"Enabled": e.State == cloud.Active, "RouteId": json.Number(e.ID), "RouteTableId": tencentTable,
		}
		if e.System {
			route["GatewayType"] = "LOCAL"
			route["RouteType"] = "NETD"
		}
		if !f.Numbers {
			route["RouteItemId"] = "rti-" + e.ID
		}
		routes = append(routes, route)
	}
	return map[string]any{"RouteTableId": tencentTable, "VpcId": tencentVPC, "Main": true, "RouteSet": routes}
}
