package jwt

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/go-jose/go-jose/v4"
	josejson "github.com/go-jose/go-jose/v4/json"
)

// A signedToken has the right form, and a signature that isn't verified.
type signedToken struct {
	jws *jose.JSONWebSignature
	alg jose.SignatureAlgorithm
	kid string // "" for none
}

// parse takes a token apart. It refuses what needs no key to be refused.
func parse(token string, opts *Options) (*signedToken, error) {
	if len(token) > MaxToken {
		return nil, refused("it is too long")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, refused("it doesn't have three parts")
	}
	for _, part := range parts {
		if !canonical(part) {
			return nil, refused("a part isn't in base64url")
		}
	}
	jws, err := jose.ParseSignedCompact(token, opts.algorithms())
	if err != nil {
		return nil, refused("its header can't be read, or its algorithm isn't allowed")
	}
	if err := checkHeader(parts[0], opts); err != nil {
		return nil, err
	}
	h := jws.Signatures[0].Protected
	return &signedToken{jws, jose.SignatureAlgorithm(h.Algorithm), h.KeyID}, nil
}

// canonical says whether text is the one way to write some bytes, at least one.
func canonical(text string) bool {
	// The decoder of the standard library passes over line ends.
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil
}

// checkHeader refuses headers that say that the token is something else, or is to be read in another way.
// part is one that parse has found to be canonical.
func checkHeader(part string, opts *Options) error {
	var h map[string]json.RawMessage
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil {
		err = josejson.Unmarshal(text, &h)
	}
	if err != nil {
		return refused("its header can't be read")
	}
	// RFC 7797, section 7: the claims of a token are always in base64url.
	for _, name := range []string{"crit", "b64"} {
		if _, ok := h[name]; ok {
			return refused("its header has something that has to be understood")
		}
	}
	var typ string
	if raw, ok := h["typ"]; ok && josejson.Unmarshal(raw, &typ) != nil || !opts.mayType(typ) {
		return refused("it is of another type")
	}
	return nil
}
