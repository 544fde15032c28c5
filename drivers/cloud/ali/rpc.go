package ali

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// version is the version of the VPC's API.
const version = "2016-04-28"

// call sends a request, and again while Alibaba throttles or fails or the table is
// busy, and returns the answer's body. Each try has a signature of its own.
func (c *Client) call(ctx context.Context, region, action string, params map[string]string) ([]byte, error) {
	doing := "ali: " + action
	for _, name := range []string{"RouteTableId", "DestinationCidrBlock"} {
		if value := params[name]; value != "" {
			doing += " " + value
		}
	}
	var body []byte
	err := api.Retry(ctx, func(ctx context.Context) error {
		all := map[string]string{
			"Action": action, "Version": version, "Format": "JSON", "RegionId": region, "AccessKeyId": c.id,
			"Timestamp": time.Now().UTC().Format("2006-01-02T15:04:05Z"), "SignatureNonce": nonce(),
			"SignatureMethod": "HMAC-SHA1", "SignatureVersion": "1.0",
		}
		maps.Copy(all, params)
		form := sign(http.MethodPost, all, c.secret)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base(region), strings.NewReader(form))
		if err != nil {
			return &api.Fault{Doing: doing, Text: c.secrets.Clean(err.Error())}
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		reply, err := api.Send(c.http, req, doing, c.secrets)
		if err != nil {
			return err
		}
		if reply.Status != http.StatusOK {
			return c.fault(action, doing, reply)
		}
		body = reply.Body
		return nil
	})
	return body, err
}

// base returns the address of the VPC's API in the region.
func (c *Client) base(region string) string {
	if c.endpoint != "" {
		return strings.TrimSuffix(c.endpoint, "/") + "/"
	}
	return "https://vpc." + region + ".aliyuncs.com/"
}

// sign returns the form with the parameters and their signature: the HMAC of the
// method, the path and the sorted form, encoded once more.
func sign(method string, params map[string]string, secret string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		pairs = append(pairs, api.Escape(name)+"="+api.Escape(params[name]))
	}
	form := strings.Join(pairs, "&")
	h := hmac.New(sha1.New, []byte(secret+"&"))
	h.Write([]byte(method + "&" + api.Escape("/") + "&" + api.Escape(form)))
	return form + "&Signature=" + api.Escape(base64.StdEncoding.EncodeToString(h.Sum(nil)))
}

// nonce returns a number that no other request has.
func nonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// parseError returns the code and the text of an error.
func parseError(body []byte) (code, text string) {
	var answer struct{ Code, Message string }
	if json.Unmarshal(body, &answer) != nil {
		return "", ""
	}
	return answer.Code, answer.Message
}

// The beginnings of codes, by what they mean.
var (
	throttles = []string{"Throttling", "ServiceUnavailable.Throttling"}
	fulls     = []string{"QuotaExceeded", "RouterEntryQuotaExceeded", "RouteEntryQuotaExceeded"}
	existing  = []string{"RouterEntryConflict", "RouteEntryConflict", "InvalidCidrBlock.Duplicate",
		"InvalidCIDRBlock.Duplicate", "Duplicated", "EntryAlreadyExist"}
	missing = []string{"InvalidRouteEntry.NotFound", "InvalidRouteEntryId.NotFound", "RouterEntry.NotFound"}
	busy    = []string{"TaskConflict", "OperationConflict", "IncorrectStatus", "IncorrectRouteEntryStatus",
		"IncorrectRouteTableStatus", "IncorrectVpcStatus", "LastTokenProcessing", "SystemBusy", "InvalidStatus.RouteEntry"}
	denied  = []string{"Forbidden", "NoPermission", "UnauthorizedOperation"}
	refused = []string{"InvalidAccessKeyId", "InvalidAccessKeySecret", "SignatureDoesNotMatch", "IncompleteSignature",
		"InvalidSecurityToken", "InvalidTimeStamp", "SignatureNonceUsed"}
)

func isOne(code string, of []string) bool {
	return slices.ContainsFunc(of, func(begin string) bool { return strings.HasPrefix(code, begin) })
}

// fault classifies an answer by its code.
func (c *Client) fault(action, doing string, reply api.Reply) *api.Fault {
	code, text := parseError(reply.Body)
	f := &api.Fault{
		Doing: doing, Code: c.secrets.Clean(code), Text: c.secrets.Clean(text), Wait: api.RetryAfter(reply.Header),
	}
	if code == "" {
		f.Code = api.StatusCode(reply.Status)
	}
	switch {
	case isOne(code, throttles) || reply.Status == http.StatusTooManyRequests:
		f.Class = cloud.ErrThrottled
		f.Temporary = true
	case isOne(code, fulls):
		f.Class = cloud.ErrQuota
		f.Advice = limit
	case isOne(code, existing):
		f.Class = cloud.ErrExists
	case isOne(code, missing):
		f.Class = cloud.ErrNotFound
	case isOne(code, busy):
		f.Temporary = true
	case isOne(code, refused) || reply.Status == http.StatusUnauthorized:
		f.Class = cloud.ErrDenied
		f.Advice = "the credentials are not accepted; they need the right vpc:" + action
	case isOne(code, denied) || reply.Status == http.StatusForbidden:
		f.Class = cloud.ErrDenied
		f.Advice = "the credentials need the right vpc:" + action
	default:
		f.Temporary = reply.Status >= 500
	}
	return f
}
