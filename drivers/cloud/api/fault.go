package api

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Fault is a request that failed. Class says what the caller can do about it: it
// is an error of package cloud, an error of a context, or nil.
type Fault struct {
	Class     error
	Doing     string        // the request and its object, such as "CreateRoute in rtb-1"
	Code      string        // the provider's code, or the status
	Text      string        // the provider's text, bounded and without credentials
	Advice    string        // the right that is missing, the limit that is reached
	Temporary bool          // the same request may succeed soon
	Wait      time.Duration // the provider asks for this long before the next request
}

func (f *Fault) Error() string {
	parts := []string{f.Doing}
	if f.Class != nil {
		parts = append(parts, f.Class.Error())
	}
	if f.Advice != "" {
		parts = append(parts, f.Advice)
	}
	switch {
	case f.Code != "" && f.Text != "":
		parts = append(parts, f.Code+": "+f.Text)
	case f.Code+f.Text != "":
		parts = append(parts, f.Code+f.Text)
	}
	return strings.Join(parts, ": ")
}

func (f *Fault) Unwrap() error { return f.Class }

// longestText bounds the text of a provider in an error: AWS sends whole
// canonical requests back.
const longestText = 300

// Secrets are the credentials in use. Their values appear in no error.
type Secrets map[string]bool

// Add notes a credential. Values too short to be one are left out, because they
// would blacken ordinary words.
func (s Secrets) Add(values ...string) {
	for _, value := range values {
		if len(value) >= 4 {
			s[value] = true
		}
	}
}

// mask stands in the place of a credential.
const mask = "REDACTED"

// Clean makes a foreign text fit for an error: without credentials, also in the
// forms that URLs and quotes give them, without control characters, and short.
func (s Secrets) Clean(text string) string {
	// The longest first: a credential may begin with another one.
	for _, secret := range slices.SortedFunc(maps.Keys(s), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		for _, form := range forms(secret) {
			text = strings.ReplaceAll(text, form, mask)
		}
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return text
}

// forms returns the forms in which a secret may stand in a text.
func forms(secret string) []string {
	quoted := strconv.Quote(secret)
	return []string{secret, quoted[1 : len(quoted)-1], Escape(secret), strings.ToLower(Escape(secret))}
}
