package jwt_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/greenroomdb/greenroom/host/front/jwt"
)

// The issuer and the audience of tests, and the time at which they are.
const (
	issuer   = "https://issuer.example"
	audience = "greenroom"
)

var epoch = time.Unix(1_800_000_000, 0)

// private are keys of an issuer: made once, as those of RSA take long.
type private struct {
	rsa, otherRSA *rsa.PrivateKey
	p256, p384    *ecdsa.PrivateKey
	ed            ed25519.PrivateKey
}

var keys = sync.OnceValue(func() *private {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var p private
	var err error
	p.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	p.otherRSA, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	p.p256, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	p.p384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(err)
	p.ed = ed25519.NewKeyFromSeed([]byte("the same in all fuzzing processes")[:ed25519.SeedSize])
	return &p
})

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// token returns one of any header and payload, with a signature by key: RSA with PKCS #1 v1.5, ECDSA of P-256
// and HMAC over SHA-256, Ed25519. It doesn't look at the header.
func token(key any, header, payload string) string {
	return signParts(key, b64(header), b64(payload))
}

// signParts signs parts that are in base64 already, or in anything else.
func signParts(key any, header, payload string) string {
	input := header + "." + payload
	sum := sha256.Sum256([]byte(input))
	var sig []byte
	var err error
	switch key := key.(type) {
	case *rsa.PrivateKey:
		sig, err = rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, key, sum[:])
		size := (key.Curve.Params().BitSize + 7) / 8
		sig, err = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), e
	case ed25519.PrivateKey:
		sig = ed25519.Sign(key, []byte(input))
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(input))
		sig = mac.Sum(nil)
	}
	if err != nil {
		panic(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// claims returns those of a good token, with others besides or instead; nil takes one away.
func claims(change map[string]any) string {
	all := map[string]any{"iss": issuer, "aud": audience, "sub": "ada", "exp": epoch.Unix() + 600}
	for name, v := range change {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// es256 returns a token of the key of the id kid.
func es256(kid string, change map[string]any) string {
	return token(keys().p256, fmt.Sprintf(`{"alg":"ES256","kid":%q}`, kid), claims(change))
}

// jwks returns the JWK set of keys by their ids.
func jwks(public map[string]crypto.PublicKey) []byte {
	var set jose.JSONWebKeySet
	for kid, key := range public {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: kid})
	}
	text, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return text
}

// all is the JWK set of all keys but otherRSA.
func all() []byte {
	k := keys()
	return jwks(map[string]crypto.PublicKey{"r": &k.rsa.PublicKey, "e": &k.p256.PublicKey, "e3": &k.p384.PublicKey, "d": k.ed.Public()})
}

// verifier returns one for the issuer and the audience, at the epoch, with keys that are set by change.
func verifier(tb testing.TB, change func(*jwt.Options)) *jwt.Verifier {
	tb.Helper()
	o := &jwt.Options{Issuer: issuer, Audience: []string{audience}, Now: func() time.Time { return epoch },
		Logger: slog.New(slog.DiscardHandler)}
	change(o)
	v, err := jwt.New(context.Background(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(v.Close)
	return v
}

// A server publishes keys, without a network. It is an http.RoundTripper.
type server struct {
	mu     sync.Mutex
	status int
	body   string
	hangs  bool
	moved  string // the location that it redirects to
	asked  []string
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.String())
	status, body, hangs, moved := s.status, s.body, s.hangs, s.moved
	s.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h := http.Header{}
	if moved != "" {
		h.Set("Location", moved)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// publish says what the server answers from now on.
func (s *server) publish(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body, s.hangs = status, body, false
}

func (s *server) hang(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = hangs
}

// count returns how many requests have come.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// setOf is the JWK set of the key of es256, by several ids.
func setOf(kids ...string) string {
	public := map[string]crypto.PublicKey{}
	for _, kid := range kids {
		public[kid] = &keys().p256.PublicKey
	}
	return string(jwks(public))
}
