package gce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/flanneld/flannel/drivers/cloud"
	"github.com/flanneld/flannel/drivers/cloud/api"
)

// scope is the permission that a token asks for: compute, read and write.
const scope = "https://www.googleapis.com/auth/compute"

// early is how long before its end a token is replaced.
const early = time.Minute

// tokens keeps the present token.
type tokens struct {
	fetch func(ctx context.Context) (*oauth2.Token, error)
	token *oauth2.Token
}

// get returns a token that is valid for a while.
func (t *tokens) get(ctx context.Context) (string, error) {
	if t.token == nil || time.Until(t.token.Expiry) < early {
		token, err := t.fetch(ctx)
		if err != nil {
			return "", err
		}
		t.token = token
	}
	return t.token.AccessToken, nil
}

// tokensOf returns the source of tokens: the file if there is one, else the
// instance's account.
func tokensOf(o api.Options, c *Client) (tokens, error) {
	if o.CredentialsFile == "" {
		return tokens{fetch: c.tokenOfInstance}, nil
	}
	data, err := os.ReadFile(o.CredentialsFile)
	if err != nil {
		return tokens{}, fmt.Errorf("gce: reading the credentials: %w", err)
	}
	var file struct {
		Type google.CredentialsType `json:"type"`
	}
	if json.Unmarshal(data, &file) != nil {
		return tokens{}, fmt.Errorf("gce: the credentials in %s are no JSON", o.CredentialsFile)
	}
	known := []google.CredentialsType{google.ServiceAccount, google.AuthorizedUser, google.ExternalAccount}
	if !slices.Contains(known, file.Type) {
		return tokens{}, fmt.Errorf("gce: the credentials in %s are of the type %.40q, which is none of %v",
			o.CredentialsFile, file.Type, known)
	}
	return tokens{fetch: func(ctx context.Context) (*oauth2.Token, error) {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, c.http)
		found, err := google.CredentialsFromJSONWithType(ctx, data, file.Type, scope)
		if err != nil {
			return nil, &api.Fault{
				Class: cloud.ErrDenied, Doing: "gce: credentials", Text: o.CredentialsFile + " does not parse",
			}
		}
		token, err := found.TokenSource.Token()
		if err != nil {
			return nil, noToken(err)
		}
		return token, nil
	}}, nil
}

// noToken makes the fault of a token that could not be had. It tells the code or
// the status alone, since an answer may hold credentials.
func noToken(err error) *api.Fault {
	f := &api.Fault{Doing: "gce: getting a token", Text: "no answer as it should be", Temporary: true}
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) && answer.Response != nil {
		f.Code = api.StatusCode(answer.Response.StatusCode)
		f.Text = "the token service refuses"
		if status := answer.Response.StatusCode; status < 500 && status != http.StatusTooManyRequests {
			f.Class = cloud.ErrDenied
			f.Temporary = false
		}
	}
	return f
}

// tokenOfInstance asks the metadata service for a token of the instance's account.
func (c *Client) tokenOfInstance(ctx context.Context) (*oauth2.Token, error) {
	body, err := c.metadata.Read(ctx, "/instance/service-accounts/default/token")
	if isMissing(err) {
		return nil, &api.Fault{Class: cloud.ErrDenied, Doing: "gce: getting a token",
			Advice: "the instance needs a service account with the scope compute (read and write)"}
	}
	if err != nil {
		return nil, err
	}
	return parseToken(body, time.Now())
}

// parseToken reads the metadata service's answer.
func parseToken(body []byte, now time.Time) (*oauth2.Token, error) {
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	err := json.Unmarshal(body, &answer)
	if err != nil || answer.Token == "" || answer.Seconds < 0 || answer.Seconds > 1<<31 {
		return nil, &api.Fault{Class: cloud.ErrNoIdentity, Doing: "gce: getting a token", Text: "the answer is no token"}
	}
	return &oauth2.Token{AccessToken: answer.Token, Expiry: now.Add(time.Duration(answer.Seconds) * time.Second)}, nil
}
