package cloudtest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// AWS is EC2's query API, with the metadata service in its second version.
type AWS struct {
	cloud   *Cloud
	Region  string
	Main    bool   // the subnet has no table of its own and uses the VPC's main one
	Role    bool   // the credentials are the instance role's
	Checked bool   // the check of sources and destinations is on
	Omitted string // a table that lists leave out
	keys    map[string]string
}

const (
	awsKey, awsSecret           = "AKIAFAKEFAKEFAKEFAKE", "aws+secret/secret+of/the+config00000000"
	awsRoleKey, awsRoleSecret   = "ASIAROLEROLEROLEROLE", "aws+role/role+secret/of+an+instance0000"
	awsRoleToken, awsIMDSToken  = "IQoJb3JpZ2luX2VjE+role/token==", "AQAEAsession/token=="
	awsInstance, awsVPC         = "i-0123456789abcdef0", "vpc-11"
	awsSubnet, awsUplink        = "subnet-22", "10.0.1.7"
	awsOtherSubnet, awsOtherENI = "subnet-33", "eni-0second"
)

// NewAWS returns a fake with one table, that of the instance's subnet.
func NewAWS() *AWS {
	f := &AWS{
		Region: "eu-west-1", Checked: true, keys: map[string]string{awsKey: awsSecret, awsRoleKey: awsRoleSecret},
	}
	f.cloud = &Cloud{
		Self: "eni-0self", Other: "eni-0other", TableIDs: []string{"rtb-1"},
		secrets: []string{awsKey, awsSecret, awsRoleKey, awsRoleSecret, awsRoleToken, awsIMDSToken},
		Names: Names{
			List: "DescribeRouteTables", Create: "CreateRoute", Delete: "DeleteRoute", Limit: "50 routes", Pages: true,
			Rights: map[string]string{
				"DescribeRouteTables": "ec2:DescribeRouteTables", "CreateRoute": "ec2:CreateRoute",
				"DeleteRoute": "ec2:DeleteRoute",
			},
			Probe: "/latest/meta-data/instance-id",
		},
	}
	f.local("rtb-1")
	return f
}

func (f *AWS) local(table string) {
	f.cloud.Put(Entry{Table: table, Dst: netip.MustParsePrefix("10.0.0.0/16"), Hop: "local", System: true})
}

// AddTable adds a table that an operator may configure.
func (f *AWS) AddTable(id string) {
	f.cloud.TableIDs = append(f.cloud.TableIDs, id)
	f.local(id)
}

// Cloud returns the state.
func (f *AWS) Cloud() *Cloud { return f.cloud }

// Options returns the daemon's options.
func (f *AWS) Options() api.Options {
	o := api.Options{Uplink: netip.MustParseAddr(awsUplink), PublicIP: netip.MustParseAddr(awsUplink)}
	if !f.Role {
		o.AccessKeyID = awsKey
		o.AccessKeySecret = awsSecret
	}
	if len(f.cloud.TableIDs) > 1 {
		o.RouteTableIDs = f.cloud.TableIDs
	}
	return o
}

func (f *AWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/latest/") {
		f.cloud.host(r, "169.254.169.254")
		f.metadata(w, r)
		return
	}
	suffix := ".amazonaws.com"
	if strings.HasPrefix(f.Region, "cn-") {
		suffix += ".cn"
	}
	f.cloud.host(r, "ec2."+f.Region+suffix)
	body, _ := io.ReadAll(r.Body)
	form, err := url.ParseQuery(string(body))
	fail := func(trouble Trouble, text string) { failAWS(w, trouble, text) }
	switch {
	case err != nil || form.Get("Version") != "2016-11-15":
		fail(Invalid, "the form does not parse or has another version")
		return
	case checkV4(r, string(body), "ec2", f.Region, f.keys) != nil:
		fail(BadKeys, fmt.Sprint(checkV4(r, string(body), "ec2", f.Region, f.keys)))
		return
	case strings.Contains(r.Header.Get("Authorization"), awsRoleKey) &&
		r.Header.Get("X-Amz-Security-Token") != awsRoleToken:
		fail(BadKeys, "no token")
		return
	}
	f.cloud.present = []string{awsKey, awsSecret}
	if f.Role {
		f.cloud.present = []string{awsRoleKey, awsRoleSecret, awsRoleToken}
	}
	f.cloud.carry(w, r, form.Get("Action"), fail, func(w http.ResponseWriter) { f.action(w, form) })
}

func (f *AWS) metadata(w http.ResponseWriter, r *http.Request) {
	if f.cloud.Gone {
		http.NotFound(w, r)
		return
	}
	fail := func(Trouble, string) { http.Error(w, "trouble", http.StatusInternalServerError) }
	f.cloud.carry(w, r, r.URL.Path, fail, func(w http.ResponseWriter) {
		if r.URL.Path == "/latest/api/token" {
			ttl := r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds")
			if r.Method != http.MethodPut || ttl == "" {
				http.Error(w, "", http.StatusBadRequest)
				return
			}
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", ttl)
			io.WriteString(w, awsIMDSToken)
			return
		}
		if r.Header.Get("X-Aws-Ec2-Metadata-Token") != awsIMDSToken {
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
		f.fact(w, r)
	})
}

func (f *AWS) fact(w http.ResponseWriter, r *http.Request) {
	instance := awsInstance
	if f.cloud.Rubbish {
		instance = "<html>" + awsSecret
	}
	switch r.URL.Path {
	case "/latest/dynamic/instance-identity/document":
		json.NewEncoder(w).Encode(map[string]string{"region": f.Region, "instanceId": awsInstance})
	case "/latest/meta-data/instance-id":
		io.WriteString(w, instance)
	case "/latest/meta-data/iam/security-credentials/":
		io.WriteString(w, "flannel")
	case "/latest/meta-data/iam/security-credentials/flannel":
		json.NewEncoder(w).Encode(map[string]string{
			"Code": "Success", "AccessKeyId": awsRoleKey, "SecretAccessKey": awsRoleSecret, "Token": awsRoleToken,
			"Expiration": time.Now().Add(time.Hour).Format(time.RFC3339),
		})
	default:
		http.NotFound(w, r)
	}
}

// awsCodes are EC2's codes, with the status of each.
var awsCodes = map[Trouble]struct {
	code   string
	status int
}{
	Throttle: {"RequestLimitExceeded", 503}, Fail: {"InternalError", 500}, Deny: {"UnauthorizedOperation", 403},
	BadKeys: {"AuthFailure", 401}, Exists: {"RouteAlreadyExists", 400}, Missing: {"InvalidRoute.NotFound", 400},
	Full: {"RouteLimitExceeded", 400}, Busy: {"Unavailable", 503}, Invalid: {"InvalidParameterValue", 400},
}

func failAWS(w http.ResponseWriter, trouble Trouble, text string) {
	kind := awsCodes[trouble]
	w.WriteHeader(kind.status)
	fmt.Fprintf(w, "<Response><Errors><Error><Code>%s</Code><Message>", kind.code)
	xml.EscapeText(w, []byte(text))
	io.WriteString(w, "</Message></Error></Errors><RequestID>1</RequestID></Response>")
}

func (f *AWS) action(w http.ResponseWriter, form url.Values) {
	dst, _ := netip.ParsePrefix(form.Get("DestinationCidrBlock"))
	table := form.Get("RouteTableId")
	trouble := Fine
	switch action := form.Get("Action"); action {
	case "DescribeInstances":
		f.instances(w, form)
		return
	case "DescribeRouteTables":
		f.tables(w, form)
		return
	case "CreateRoute":
		trouble = f.cloud.create(Entry{Table: table, Dst: dst, Hop: form.Get("NetworkInterfaceId")},
			func(old Entry) bool { return old.Dst == dst })
	case "DeleteRoute":
		trouble = f.cloud.remove(func(e Entry) bool { return e.Table == table && e.Dst == dst && !e.System })
	case "ModifyNetworkInterfaceAttribute":
		if form.Get("NetworkInterfaceId") != f.cloud.Self {
			trouble = Invalid
			break
		}
		f.Checked = form.Get("SourceDestCheck.Value") != "false"
	default:
		trouble = Invalid
	}
	if trouble != Fine {
		failAWS(w, trouble, "no")
		return
	}
	io.WriteString(w, "<Response><requestId>1</requestId><return>true</return></Response>")
}

// turn serves a page: the first page of a list with pages is empty, as EC2's may be.
func (f *AWS) turn(w io.Writer, form url.Values, items []string) {
	from, _ := strconv.Atoi(strings.TrimPrefix(form.Get("NextToken"), "page-"))
	if f.cloud.PageSize == 0 {
		fmt.Fprint(w, strings.Join(items, ""))
		return
	}
	if from > 0 {
		fmt.Fprint(w, items[from-1])
	}
	if from < len(items) {
		fmt.Fprintf(w, "</set><nextToken>page-%d</nextToken><set>", from+1)
	}
}

func (f *AWS) instances(w io.Writer, form url.Values) {
	const eni = `<item><networkInterfaceId>%s</networkInterfaceId><subnetId>%s</subnetId><vpcId>%s</vpcId>` +
		`<sourceDestCheck>%v</sourceDestCheck><privateIpAddress>%s</privateIpAddress>` +
		`<privateIpAddressesSet><item><privateIpAddress>%s</privateIpAddress></item></privateIpAddressesSet></item>`
	var items []string
	if form.Get("InstanceId.1") == awsInstance {
		items = append(items, `<item><instancesSet><item><networkInterfaceSet>`+
			fmt.Sprintf(eni, awsOtherENI, awsOtherSubnet, awsVPC, true, "10.0.2.9", "10.0.2.10")+
			fmt.Sprintf(eni, f.cloud.Self, awsSubnet, awsVPC, f.Checked, "10.0.1.6", awsUplink)+
			`</networkInterfaceSet></item></instancesSet></item>`)
	}
	f.list(w, form, "reservationSet", items)
}

// list writes the answer with a list: pages of it are set elements that follow each other.
func (f *AWS) list(w io.Writer, form url.Values, set string, items []string) {
	var out strings.Builder
	f.turn(&out, form, items)
	text := strings.ReplaceAll(out.String(), "</set>", "</"+set+">")
	fmt.Fprintf(w, "<Response><%s>%s</%s></Response>", set, strings.ReplaceAll(text, "<set>", "<"+set+">"), set)
}

func (f *AWS) tables(w http.ResponseWriter, form url.Values) {
	var ids []string
	for i := 1; form.Has(fmt.Sprintf("RouteTableId.%d", i)); i++ {
		ids = append(ids, form.Get(fmt.Sprintf("RouteTableId.%d", i)))
	}
	filters := map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		filters[form.Get(fmt.Sprintf("Filter.%d.Name", i))] = form.Get(fmt.Sprintf("Filter.%d.Value.1", i))
	}
	switch {
	case filters["association.subnet-id"] == awsSubnet && !f.Main:
		ids = f.cloud.TableIDs[:1]
	case filters["association.main"] == "true" && filters["vpc-id"] == awsVPC && f.Main:
		ids = f.cloud.TableIDs[:1]
	}
	var items []string
	for _, id := range ids {
		switch {
		case !slices.Contains(f.cloud.TableIDs, id):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, "<Response><Errors><Error><Code>InvalidRouteTableID.NotFound</Code><Message>The routeTable ID "+
				"'%s' does not exist</Message></Error></Errors></Response>", id)
			return
		case id != f.Omitted:
			items = append(items, f.table(id))
		}
	}
	f.list(w, form, "routeTableSet", items)
}

func (f *AWS) table(id string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "<item><routeTableId>%s</routeTableId><vpcId>%s</vpcId><routeSet>", id, awsVPC)
	for _, e := range f.cloud.list(id) {
		if e.State == cloud.Pending {
			continue // EC2 knows no such state: the route is not there yet
		}
		hop := "networkInterfaceId"
		origin := "CreateRoute"
		state := "active"
		if e.System {
			hop = "gatewayId"
			origin = "CreateRouteTable"
		}
		if e.State == cloud.Broken {
			state = "blackhole"
		}
		fmt.Fprintf(&out, "<item><destinationCidrBlock>%s</destinationCidrBlock><%s>%s</%s><state>%s</state>"+
			"<origin>%s</origin></item>", e.Dst, hop, e.Hop, hop, state, origin)
	}
	out.WriteString("<item><destinationIpv6CidrBlock>2600::/56</destinationIpv6CidrBlock><gatewayId>local</gatewayId>" +
		"<state>active</state></item></routeSet></item>")
	return out.String()
}
