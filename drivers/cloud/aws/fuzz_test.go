package aws

import (
	"testing"

	"github.com/flanneld/flannel/drivers/cloud"
)

// FuzzAnswers reads answers of any form: a provider's answer is untrusted input.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "<", "{}", "<Response/>",
		"<Response><routeTableSet><item><routeTableId>rtb-1</routeTableId><routeSet><item>" +
			"<destinationCidrBlock>10.40.3.7/24</destinationCidrBlock><networkInterfaceId>eni-1</networkInterfaceId>" +
			"<state>active</state><origin>CreateRoute</origin></item></routeSet></item></routeTableSet>" +
			"<nextToken>t</nextToken></Response>",
		"<R><routeTableSet><item><routeSet><item><destinationCidrBlock>::/0</destinationCidrBlock></item></routeSet></item>" +
			"</routeTableSet></R>",
		"<R><reservationSet><item><instancesSet><item><networkInterfaceSet><item><sourceDestCheck>maybe</sourceDestCheck>" +
			"</item></networkInterfaceSet></item></instancesSet></item></reservationSet></R>",
		"<Response><Errors><Error><Code>AuthFailure</Code><Message>no</Message></Error></Errors></Response>",
		"<Response><return>true</return></Response>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parsePage(body)
		if err == nil {
			for _, tab := range p.Tables {
				for _, r := range tab.routes("") {
					if r.Self || !r.Dst.Addr().Is4() || r.Dst != r.Dst.Masked() || r.State == cloud.Pending {
						t.Errorf("%+v", r)
					}
				}
			}
		}
		parseError(body)
		parseChange(body)
	})
}
