package jwt

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// bearerProtocol begins the subprotocol in which a browser sends its bearer token, in base64url without
// padding, as it can set no header of a WebSocket. Package front reads its own tokens by the same rule.
const bearerProtocol = "greenroom.bearer."

// FromRequest returns the token that a request bears: what follows Bearer in its Authorization, or else
// what its WebSocket has behind greenroom.bearer. in the name of a subprotocol, in base64url. ok says
// that there is one; nothing about it is verified.
func FromRequest(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(token)
		return token, token != ""
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for protocol := range strings.SplitSeq(line, ",") {
			text, found := strings.CutPrefix(strings.TrimSpace(protocol), bearerProtocol)
			if !found {
				continue
			}
			// Text that isn't base64 isn't a token either.
			token, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil {
				return "", false
			}
			return string(token), len(token) > 0
		}
	}
	return "", false
}
