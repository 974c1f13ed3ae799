package jwt

import (
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	josejson "github.com/go-jose/go-jose/v4/json"
)

// Claims are what an issuer says of a token's bearer. Those that a token doesn't have are zero.
type Claims struct {
	// Subject is the bearer (sub), which an issuer calls by the same name in all of its tokens.
	Subject string
	// Issuer is what signed the token (iss), and Audience what it is meant for (aud).
	Issuer   string
	Audience []string
	// ID is the token's own (jti).
	ID string
	// Expires is when the token ends (exp), NotBefore when it begins (nbf), IssuedAt when it was made (iat).
	Expires, NotBefore, IssuedAt time.Time
	// Scopes are those of scope, which has spaces between them, or else of scp, which may be a list.
	Scopes []string
	// Raw are all claims, as the issuer wrote them: a JSON object.
	Raw json.RawMessage
}

// Decode stores all claims in what v points to, a map or a struct, by the rules of encoding/json but for
// one: names are as they are spelled, so that "Admin" isn't admin.
func (c *Claims) Decode(v any) error {
	return josejson.Unmarshal(c.Raw, v)
}

// registered are the claims that are looked at. A pointer is nil for a claim that a token lacks.
type registered struct {
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"`
	Audience  words    `json:"aud"`
	ID        string   `json:"jti"`
	Expires   *float64 `json:"exp"`
	NotBefore *float64 `json:"nbf"`
	IssuedAt  *float64 `json:"iat"`
	Scope     *string  `json:"scope"`
	Scp       words    `json:"scp"`
}

// words are a string, or a list of them.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*w = make(words, 1)
		return josejson.Unmarshal(data, &(*w)[0])
	}
	return josejson.Unmarshal(data, (*[]string)(w))
}

// readClaims takes the claims of a token apart. It refuses an object that two readers may understand in two
// ways.
func readClaims(payload []byte) (*Claims, error) {
	var all map[string]any // in all of which no name comes twice
	var r registered
	if !utf8.Valid(payload) || josejson.Unmarshal(payload, &all) != nil {
		return nil, refused("its claims aren't an object in JSON, or have a name twice")
	}
	if josejson.Unmarshal(payload, &r) != nil {
		return nil, refused("a claim is of a wrong type")
	}
	c := &Claims{
		Subject: r.Subject, Issuer: r.Issuer, Audience: r.Audience, ID: r.ID,
		Scopes: scopes(&r), Raw: payload,
	}
	if r.Expires == nil {
		return nil, refused("it has no exp")
	}
	var exp, nbf, iat bool
	c.Expires, exp = date(r.Expires)
	c.NotBefore, nbf = date(r.NotBefore)
	c.IssuedAt, iat = date(r.IssuedAt)
	if !exp || !nbf || !iat {
		return nil, refused("a time isn't one")
	}
	return c, nil
}

func scopes(r *registered) (all []string) {
	if r.Scope != nil {
		return strings.Fields(*r.Scope)
	}
	for _, s := range r.Scp {
		all = append(all, strings.Fields(s)...)
	}
	return all
}

// lastSecond is the last one that has a year of four digits.
const lastSecond = 253402300799

// date returns the time that is so many seconds after 1970, zero for nil. ok is false for what can't be one.
func date(seconds *float64) (t time.Time, ok bool) {
	if seconds == nil {
		return time.Time{}, true
	}
	if !(*seconds >= 0 && *seconds <= lastSecond) {
		return time.Time{}, false
	}
	whole, part := math.Modf(*seconds)
	return time.Unix(int64(whole), int64(part*1e9)).UTC(), true
}
