package ali

import (
	"strings"
	"testing"
)

// TestSignature computes the example of Alibaba's documentation of the signature.
func TestSignature(t *testing.T) {
	form := sign("GET", map[string]string{
		"Timestamp": "2016-02-23T12:46:24Z", "Format": "XML", "AccessKeyId": "testid", "Action": "DescribeRegions",
		"SignatureMethod": "HMAC-SHA1", "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
		"Version": "2014-05-26", "SignatureVersion": "1.0",
	}, "testsecret")
	if !strings.HasSuffix(form, "&Signature=OLeaidS1JvxuMvnyHOwuJ%2BuX5qY%3D") {
		t.Error(form)
	}
}
