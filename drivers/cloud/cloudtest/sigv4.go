package cloudtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// skew is the difference of clocks that a provider accepts.
const skew = 5 * time.Minute

func hashed(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, data string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(data))
	return h.Sum(nil)
}

// authorization splits a header such as "ALGORITHM Credential=a, SignedHeaders=b, Signature=c".
func authorization(r *http.Request, algorithm string) (map[string]string, error) {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !ok {
		return nil, fmt.Errorf("no signature by %s", algorithm)
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	return parts, nil
}

// signedHeaders returns the canonical form of the headers that a signature covers.
func signedHeaders(r *http.Request, names []string) string {
	var out strings.Builder
	for _, name := range names {
		value := r.Host
		if name != "host" {
			value = strings.Join(r.Header.Values(name), ",")
		}
		if name == "content-length" {
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&out, "%s:%s\n", name, strings.TrimSpace(value))
	}
	return out.String()
}

// checkV4 checks a signature of AWS, version 4.
func checkV4(r *http.Request, body, service, region string, secrets map[string]string) error {
	parts, err := authorization(r, "AWS4-HMAC-SHA256")
	if err != nil {
		return err
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	if d := time.Since(at); d > skew || d < -skew {
		return fmt.Errorf("RequestExpired: signed %s ago", d)
	}
	scope := strings.Split(parts["Credential"], "/")
	if len(scope) != 5 {
		return fmt.Errorf("the credential has %d parts", len(scope))
	}
	want := []string{at.Format("20060102"), region, service, "aws4_request"}
	if !slices.Equal(scope[1:], want) {
		return fmt.Errorf("the scope is %q and not %q", scope[1:], want)
	}
	secret, known := secrets[scope[0]]
	if !known {
		return fmt.Errorf("AuthFailure: unknown key")
	}
	names := strings.Split(parts["SignedHeaders"], ";")
	for _, name := range []string{"host", "x-amz-date"} {
		if !slices.Contains(names, name) {
			return fmt.Errorf("the header %s is not signed", name)
		}
	}
	if got := signatureV4(r, body, names, at, want, secret); got != parts["Signature"] {
		return fmt.Errorf("SignatureDoesNotMatch")
	}
	return nil
}

// signatureV4 computes the signature that a request should have.
func signatureV4(r *http.Request, body string, names []string, at time.Time, scope []string, secret string) string {
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	query, _ := url.ParseQuery(r.URL.RawQuery)
	canonical := strings.Join([]string{
		r.Method, path, strings.ReplaceAll(query.Encode(), "+", "%20"), signedHeaders(r, names),
		strings.Join(names, ";"), hashed(body),
	}, "\n")
	text := strings.Join([]string{
		"AWS4-HMAC-SHA256", at.Format("20060102T150405Z"), strings.Join(scope, "/"), hashed(canonical),
	}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}
