package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// version is the version of EC2's API.
const version = "2016-11-15"

// call sends a request, and again while EC2 throttles or fails, and returns the
// answer's body.
func (c *Client) call(ctx context.Context, region, action string, params url.Values) ([]byte, error) {
	doing := "aws: " + action
	if table := params.Get("RouteTableId"); table != "" {
		doing += " in " + table
	}
	if dst := params.Get("DestinationCidrBlock"); dst != "" {
		doing += " to " + dst
	}
	form := url.Values{"Action": {action}, "Version": {version}}
	maps.Copy(form, params)
	var body []byte
	err := api.Retry(ctx, func(ctx context.Context) error {
		req, err := c.signed(ctx, region, form.Encode())
		if err != nil {
			return err
		}
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

// signed makes a request with the signature of the present credentials.
func (c *Client) signed(ctx context.Context, region, form string) (*http.Request, error) {
	keys, err := c.credentials.Retrieve(ctx)
	if err != nil {
		return nil, unknown(ctx, "the credentials of the instance's role", err)
	}
	c.secrets.Add(keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base(region), strings.NewReader(form))
	if err != nil {
		return nil, &api.Fault{Doing: "aws: making a request", Text: c.secrets.Clean(err.Error())}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	hash := sha256.Sum256([]byte(form))
	err = v4.NewSigner().SignHTTP(ctx, keys, req, hex.EncodeToString(hash[:]), "ec2", region, time.Now())
	if err != nil {
		return nil, &api.Fault{Doing: "aws: signing a request", Text: c.secrets.Clean(err.Error())}
	}
	return req, nil
}

// base returns the address of EC2 in the region.
func (c *Client) base(region string) string {
	switch {
	case c.endpoint != "":
		return strings.TrimSuffix(c.endpoint, "/") + "/"
	case strings.HasPrefix(region, "cn-"):
		return "https://ec2." + region + ".amazonaws.com.cn/"
	default:
		return "https://ec2." + region + ".amazonaws.com/"
	}
}

// refused are the codes of credentials that AWS does not accept.
var refused = map[string]bool{
	"AuthFailure": true, "InvalidClientTokenId": true, "SignatureDoesNotMatch": true, "MissingAuthenticationToken": true,
	"ExpiredToken": true, "RequestExpired": true, "InvalidAccessKeyId": true, "Blocked": true, "OptInRequired": true,
	"PendingVerification": true, "UnrecognizedClientException": true,
}

// denied are the codes of rights that the credentials lack.
var denied = map[string]bool{"UnauthorizedOperation": true, "AccessDenied": true, "AccessDeniedException": true}

// fault classifies an answer by its code.
func (c *Client) fault(action, doing string, reply api.Reply) *api.Fault {
	code, text := parseError(reply.Body)
	f := &api.Fault{
		Doing: doing, Code: c.secrets.Clean(code), Text: c.secrets.Clean(text), Wait: api.RetryAfter(reply.Header),
	}
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	_, transient := retry.DefaultRetryableErrorCodes[code]
	_, failing := retry.DefaultRetryableHTTPStatusCodes[reply.Status]
	switch {
	case throttled || reply.Status == http.StatusTooManyRequests:
		f.Class = cloud.ErrThrottled
		f.Temporary = true
	case code == "RouteLimitExceeded":
		f.Class = cloud.ErrQuota
		f.Advice = limit
	case code == "RouteAlreadyExists":
		f.Class = cloud.ErrExists
	case code == "InvalidRoute.NotFound":
		f.Class = cloud.ErrNotFound
	case denied[code]:
		f.Class = cloud.ErrDenied
		f.Advice = "the credentials need the right ec2:" + action
	case refused[code] || reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden && code == "":
		f.Class = cloud.ErrDenied
		f.Advice = "the credentials are not accepted; they need the right ec2:" + action
		if cache, ok := c.credentials.(*aws.CredentialsCache); ok {
			cache.Invalidate()
		}
	default:
		f.Temporary = transient || failing
	}
	if code == "" {
		f.Code = http.StatusText(reply.Status)
	}
	return f
}
