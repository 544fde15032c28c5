package ali

import (
	"encoding/json"
	"testing"
)

// FuzzAnswers reads answers of any form: a provider's answer is untrusted input.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "{", "[]", "null", `{"Code":5}`, `{"Code":"Throttling.User","Message":"no"}`,
		`{"Vpcs":{"Vpc":[{"VpcId":"vpc-1","VRouterId":"vrt-1"}]}}`,
		`{"VRouters":{"VRouter":[{"VRouterId":"vrt-1","RouteTableIds":{"RouteTableId":["vtb-1"]}}]}}`,
		`{"RouteEntrys":{"RouteEntry":[{"RouteEntryId":"rte-1","DestinationCidrBlock":"10.40.3.7/24","Type":"Custom",` +
			`"Status":"Available","NextHops":{"NextHop":[{"NextHopId":"i-1"}]}}]},"NextToken":"t"}`,
		`{"RouteEntrys":{"RouteEntry":[{"DestinationCidrBlock":"::/0"},` +
			`{"DestinationCidrBlock":"10.0.0.0/8","InstanceId":"i-1"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	me := &self{region: "cn-hangzhou", table: "vtb-1"}
	f.Fuzz(func(t *testing.T, body []byte) {
		parseError(body)
		var a answer
		if json.Unmarshal(body, &a) != nil {
			return
		}
		for _, e := range a.Entries.Entry {
			r, ok := e.route(me)
			if ok && (r.Self || !r.Dst.Addr().Is4() || r.Dst != r.Dst.Masked() || r.Table != "vtb-1") {
				t.Errorf("%+v", r)
			}
		}
	})
}
