package cloudtest

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The service that gives tokens for the keys of accounts.
const (
	gceTokenPath = "/token"
	gceTokenURL  = "https://oauth2.googleapis.com" + gceTokenPath
	gceAccount   = "flannel@my-project.iam.gserviceaccount.com"
)

// newToken makes a token and returns the answer that tells it.
func (f *GCE) newToken() string {
	token := gceToken + strconv.Itoa(len(f.tokens))
	f.cloud.addSecret(token)
	f.tokens[token] = time.Now().Add(f.TokenLife)
	text, _ := json.Marshal(map[string]any{
		"access_token": token, "expires_in": int(f.TokenLife / time.Second), "token_type": "Bearer",
	})
	return string(text)
}

// KeyFile returns the file that Google gives for the account's key.
func (f *GCE) KeyFile() []byte {
	der, _ := x509.MarshalPKCS8PrivateKey(f.Key)
	text, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": gceAccount, "private_key_id": "1", "token_uri": gceTokenURL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	return text
}

// tokenForKey answers an assertion that the account's key has signed.
func (f *GCE) tokenForKey(w http.ResponseWriter, r *http.Request) {
	fail := func(_ Trouble, text string) {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": text})
	}
	f.cloud.carry(w, r, gceTokenPath, fail, func(w http.ResponseWriter) {
		if err := f.checkAssertion(r.PostFormValue("assertion")); err != nil {
			fail(BadKeys, err.Error())
			return
		}
		io.WriteString(w, f.newToken())
	})
}

func (f *GCE) checkAssertion(assertion string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return fmt.Errorf("the assertion has %d parts", len(parts))
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&f.Key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return err
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claim struct{ Iss, Scope, Aud string }
	if err := json.Unmarshal(claims, &claim); err != nil {
		return err
	}
	if claim.Iss != gceAccount || claim.Aud != gceTokenURL || claim.Scope != "https://www.googleapis.com/auth/compute" {
		return fmt.Errorf("the claim is %+v", claim)
	}
	return nil
}
