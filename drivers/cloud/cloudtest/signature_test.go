package cloudtest

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestSignatureV4 computes the example "get-vanilla" of Amazon's test suite.
func TestSignatureV4(t *testing.T) {
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	r, err := http.NewRequest(http.MethodGet, "https://example.amazonaws.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Date", at.Format("20060102T150405Z"))
	scope := []string{"20150830", "us-east-1", "service", "aws4_request"}
	got := signatureV4(r, "", []string{"host", "x-amz-date"}, at, scope, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
	if got != "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31" {
		t.Error(got)
	}
}

// TestSignatureAli computes the example of Alibaba's documentation.
func TestSignatureAli(t *testing.T) {
	form := url.Values{}
	for name, value := range map[string]string{
		"Timestamp": "2016-02-23T12:46:24Z", "Format": "XML", "AccessKeyId": "testid", "Action": "DescribeRegions",
		"SignatureMethod": "HMAC-SHA1", "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
		"Version": "2014-05-26", "SignatureVersion": "1.0",
	} {
		form.Set(name, value)
	}
	if got := signatureAli(http.MethodGet, form, "testsecret"); got != "OLeaidS1JvxuMvnyHOwuJ+uX5qY=" {
		t.Error(got)
	}
}

// TestSignatureTC3 computes the example of Tencent's documentation.
func TestSignatureTC3(t *testing.T) {
	r, err := http.NewRequest(http.MethodPost, "https://cvm.tencentcloudapi.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	body := `{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}`
	scope := []string{"2019-02-25", "cvm", "tc3_request"}
	got := signatureTC3(r, body, []string{"content-type", "host"}, 1551113065, scope, "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE")
	if got != "72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168" {
		t.Error(got)
	}
}
