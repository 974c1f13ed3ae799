package front

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
)

// The token of a connection is how its client shows, after a break, that it is its own:
//
//	base64url(gateway [4] · request [4] · the first 24 bytes of
//	HMAC-SHA256(secret, "greenroom connection 1" 00 gateway request address 00 id))
//
// What the store holds of a connection isn't secret (tools show it), and the token can be
// made only with the secret of the store. Nothing is stored for it.
const (
	resumeContext = "greenroom connection 1\x00"
	resumeMAC     = 24
)

var resumeEncoding = base64.RawURLEncoding.Strict()

// resumeToken returns the token of a connection.
func (f *Front) resumeToken(a host.Address, j host.Joined) string {
	b := append(j.Gateway[:len(j.Gateway):len(j.Gateway)], j.Request[:]...)
	return resumeEncoding.EncodeToString(append(b, f.resumeMAC(a, j)...))
}

func (f *Front) resumeMAC(a host.Address, j host.Joined) []byte {
	m := hmac.New(sha256.New, f.opts.Secret)
	// A hash.Hash never fails.
	for _, part := range [][]byte{[]byte(resumeContext), j.Gateway[:], j.Request[:], []byte(a.String()), {0}, []byte(j.ID)} {
		_, _ = m.Write(part)
	}
	return m.Sum(nil)[:resumeMAC]
}

// resumed returns which connection a token is for: of that actor, with that id. Otherwise
// it is host.ErrNoConn, whatever is wrong with it.
func (f *Front) resumed(a host.Address, id conn.ID, token string) (host.Joined, error) {
	j := host.Joined{ID: id}
	b, err := resumeEncoding.DecodeString(token)
	if err != nil || len(b) != len(j.Gateway)+len(j.Request)+resumeMAC {
		return host.Joined{}, host.ErrNoConn
	}
	n := copy(j.Gateway[:], b)
	n += copy(j.Request[:], b[n:])
	if !hmac.Equal(b[n:], f.resumeMAC(a, j)) {
		return host.Joined{}, host.ErrNoConn
	}
	return j, nil
}
