package tencent

import (
	"encoding/json"
	"testing"
)

// FuzzAnswers reads answers of any form: a provider's answer is untrusted input.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "{", "[]", "null", `{"Response":null}`, `{"Response":{"Error":{"Code":"AuthFailure","Message":"no"}}}`,
		`{"Response":{"RouteTableSet":[{"RouteTableId":"rtb-1","RouteSet":[{"DestinationCidrBlock":"10.40.3.7/24",` +
			`"RouteId":12345678901,"RouteItemId":"rti-1","GatewayType":"NORMAL_CVM","GatewayId":"10.0.1.7","Enabled":true,` +
			`"RouteType":"USER"}]}],"TotalCount":1}}`,
		`{"Response":{"RouteTableSet":[{"RouteTableId":"rtb-1","RouteSet":[{"DestinationCidrBlock":"x","RouteId":"y"}]}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		parseCode(body)
		var out tables
		answer := struct{ Response any }{&out}
		if json.Unmarshal(body, &answer) != nil {
			return
		}
		for _, tab := range out.Tables {
			routes := tab.routes("10.0.1.7")
			if len(routes) == 0 {
				t.Error("a table without a route")
			}
			for _, r := range routes {
				if r.Table != tab.ID || !r.Dst.Addr().Is4() || r.Dst != r.Dst.Masked() {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}
