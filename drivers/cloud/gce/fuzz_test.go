package gce

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzAnswers reads answers of any form: a provider's answer is untrusted input.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "{", "[]", "null", `{"items":null,"nextPageToken":1}`,
		`{"items":[{"name":"flannel-10-40-3-0-24","network":"projects/p/global/networks/n","destRange":"10.40.3.7/24",` +
			`"nextHopInstance":"https://x/projects/p/zones/z/instances/i","routeStatus":"DROPPED"}],"nextPageToken":"a"}`,
		`{"items":[{"name":"../x","network":"n","destRange":"10.0.0.0/8","tags":["a"],"warnings":[{"code":"NEXT_HOP_X"}]}]}`,
		`{"items":[{"network":"n","destRange":"::/0"}]}`,
		`{"name":"operation-1","status":"DONE","error":{"errors":[{"code":"QUOTA_EXCEEDED"}]},"httpErrorStatusCode":403}`,
		`{"error":{"message":"no","errors":[{"reason":"forbidden"}]}}`,
		`{"access_token":"t","expires_in":3600}`, `{"access_token":"t","expires_in":1e300}`,
	} {
		f.Add([]byte(seed))
	}
	me := &self{project: "p", zone: "z", name: "i", network: "n"}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p page
		if json.Unmarshal(body, &p) == nil {
			for _, e := range p.Items {
				r, ok := e.route(me)
				if ok && (!r.Dst.Addr().Is4() || r.Dst != r.Dst.Masked() || !isName(r.ID) || r.Table != "n") {
					t.Errorf("%+v", r)
				}
			}
		}
		var op operation
		json.Unmarshal(body, &op)
		parseError(body)
		now := time.Unix(1_800_000_000, 0)
		if token, err := parseToken(body, now); err == nil && (token.AccessToken == "" || token.Expiry.Before(now)) {
			t.Errorf("%+v", token)
		}
	})
}
