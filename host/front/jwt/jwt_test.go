package jwt_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/greenroomdb/greenroom/host/front/jwt"
	"github.com/greenroomdb/greenroom/internal/errkind"
)

// secret is one of the shortest that HS256 may have.
var secret = []byte("0123456789abcdef0123456789abcdef")

// TestVerify: tokens of each algorithm are taken, with the keys that are for it.
func TestVerify(t *testing.T) {
	ctx, k := context.Background(), keys()
	set := verifier(t, func(o *jwt.Options) { o.KeySet = all() })
	plain := verifier(t, func(o *jwt.Options) {
		o.PublicKeys = []crypto.PublicKey{&k.otherRSA.PublicKey, &k.rsa.PublicKey, &k.p256.PublicKey, &k.p384.PublicKey, k.ed.Public()}
	})
	shared := verifier(t, func(o *jwt.Options) { o.Secret = secret })
	for _, tt := range []struct {
		alg jose.SignatureAlgorithm
		key any
		kid string
		of  []*jwt.Verifier
	}{
		{jose.RS256, k.rsa, "r", []*jwt.Verifier{set, plain}}, {jose.RS384, k.rsa, "r", []*jwt.Verifier{set, plain}},
		{jose.RS512, k.rsa, "r", []*jwt.Verifier{set, plain}}, {jose.PS256, k.rsa, "r", []*jwt.Verifier{set, plain}},
		{jose.PS384, k.rsa, "r", []*jwt.Verifier{set, plain}}, {jose.PS512, k.rsa, "", []*jwt.Verifier{set, plain}},
		{jose.ES256, k.p256, "e", []*jwt.Verifier{set, plain}}, {jose.ES384, k.p384, "e3", []*jwt.Verifier{set, plain}},
		{jose.EdDSA, k.ed, "d", []*jwt.Verifier{set, plain}}, {jose.EdDSA, k.ed, "", []*jwt.Verifier{set, plain}},
		{jose.RS256, k.otherRSA, "any", []*jwt.Verifier{plain}}, {jose.HS256, secret, "any", []*jwt.Verifier{shared}},
	} {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: tt.alg, Key: jose.JSONWebKey{Key: tt.key, KeyID: tt.kid}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := s.Sign([]byte(claims(nil)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tt.of {
			if c, err := v.Verify(ctx, text); err != nil || c.Subject != "ada" {
				t.Errorf("%s, verifier %d: %+v, %v", tt.alg, i, c, err)
			}
		}
	}
}

// TestClaims: claims come in the forms that issuers give them.
func TestClaims(t *testing.T) {
	v := verifier(t, func(o *jwt.Options) { o.KeySet = all() })
	payload := claims(map[string]any{
		"aud": []string{"other", audience}, "jti": "7", "nbf": epoch.Unix(), "iat": float64(epoch.Unix()) - 0.5,
		"scope": "read  write", "Sub": "eve", "tenant": map[string]any{"id": 9},
	})
	got, err := v.Verify(context.Background(), token(keys().ed, `{"alg":"EdDSA","typ":"application/AT+JWT","kid":"d","jku":"https://evil.example"}`, payload))
	if err != nil {
		t.Fatal(err)
	}
	want := &jwt.Claims{
		Subject: "ada", Issuer: issuer, Audience: []string{"other", audience}, ID: "7", Expires: epoch.Add(600 * time.Second).UTC(),
		NotBefore: epoch.UTC(), IssuedAt: epoch.Add(-time.Second / 2).UTC(), Scopes: []string{"read", "write"}, Raw: []byte(payload),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var own struct {
		Tenant struct {
			ID int `json:"id"`
		} `json:"tenant"`
		Upper string `json:"SUB"`
	}
	if err := got.Decode(&own); err != nil || own.Tenant.ID != 9 || own.Upper != "" {
		t.Errorf("decoded %+v, %v", own, err)
	}
	for _, tt := range []struct {
		scp  any
		want []string
	}{{"a b", []string{"a", "b"}}, {[]string{"a", "b"}, []string{"a", "b"}}, {[]string{}, nil}} {
		c, err := v.Verify(context.Background(), es256("e", map[string]any{"scp": tt.scp}))
		if err != nil || !reflect.DeepEqual(c.Scopes, tt.want) {
			t.Errorf("scp %v: %+v, %v", tt.scp, c, err)
		}
	}
}

// TestTimes: a token holds from its beginning to its end, and Leeway around.
func TestTimes(t *testing.T) {
	at := epoch.Unix()
	for _, tt := range []struct {
		leeway time.Duration
		change map[string]any
		want   error
	}{
		{-1, map[string]any{"exp": at + 1, "nbf": at, "iat": at}, nil},
		{-1, map[string]any{"exp": float64(at) + 0.5}, nil},
		{-1, map[string]any{"exp": at}, jwt.ErrExpired},
		{-1, map[string]any{"nbf": at + 1}, jwt.ErrRefused},
		{-1, map[string]any{"iat": at + 1}, jwt.ErrRefused},
		{0, map[string]any{"exp": at - 59, "nbf": at + 60, "iat": at + 60}, nil},
		{0, map[string]any{"exp": at - 60}, jwt.ErrExpired},
		{0, map[string]any{"nbf": at + 61}, jwt.ErrRefused},
		{0, map[string]any{"iat": at + 61}, jwt.ErrRefused},
		{0, map[string]any{"nbf": 0, "iat": 0}, nil},
		{time.Hour, map[string]any{"exp": at - 3599}, nil},
		{time.Hour, map[string]any{"exp": at - 3600}, jwt.ErrExpired},
		// What is wrong besides is told first.
		{0, map[string]any{"exp": at - 3600, "aud": "other"}, jwt.ErrRefused},
	} {
		v := verifier(t, func(o *jwt.Options) { o.KeySet, o.Leeway = all(), tt.leeway })
		if _, err := v.Verify(context.Background(), es256("e", tt.change)); !errors.Is(err, tt.want) {
			t.Errorf("leeway %v, %v: %v, want %v", tt.leeway, tt.change, err, tt.want)
		}
	}
}

// TestUnset: what isn't configured isn't asked for, but for exp.
func TestUnset(t *testing.T) {
	v := verifier(t, func(o *jwt.Options) { o.KeySet, o.Issuer, o.Audience = all(), "", nil })
	c, err := v.Verify(context.Background(), token(keys().p256, `{"alg":"ES256"}`, `{"exp":1800000001}`))
	if err != nil || c.Subject != "" || c.Audience != nil {
		t.Errorf("%+v, %v", c, err)
	}
	typed := verifier(t, func(o *jwt.Options) { o.KeySet, o.Types = all(), []string{"logout+jwt"} })
	for typ, want := range map[string]error{`"logout+jwt"`: nil, `"application/LOGOUT+jwt"`: nil, `"JWT"`: jwt.ErrRefused, `""`: jwt.ErrRefused, `null`: jwt.ErrRefused} {
		if _, err := typed.Verify(context.Background(), token(keys().p256, `{"alg":"ES256","typ":`+typ+`}`, claims(nil))); !errors.Is(err, want) {
			t.Errorf("typ %s: %v, want %v", typ, err, want)
		}
	}
	if _, err := typed.Verify(context.Background(), es256("e", nil)); !errors.Is(err, jwt.ErrRefused) {
		t.Errorf("without a typ: %v", err)
	}
}

// TestClosed: nothing is verified after Close, which may be called again.
func TestClosed(t *testing.T) {
	for name, change := range map[string]func(*jwt.Options){
		"static":  func(o *jwt.Options) { o.KeySet = all() },
		"fetched": func(o *jwt.Options) { o.JWKS = "https://issuer.example/keys" },
	} {
		v := verifier(t, change)
		v.Close()
		v.Close()
		if _, err := v.Verify(context.Background(), es256("e", nil)); !errors.Is(err, jwt.ErrClosed) || !errors.Is(err, errkind.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOptions: what makes no sense is refused, without a word of what is secret.
func TestOptions(t *testing.T) {
	k := keys()
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*jwt.Options{
		"nil":                   nil,
		"two sources":           {KeySet: all(), Secret: secret},
		"an empty source":       {PublicKeys: []crypto.PublicKey{}},
		"http":                  {JWKS: "http://hush.example/keys"},
		"http, loopback's name": {JWKS: "http://localhost.hush.example/keys"},
		"no server":             {JWKS: "https:///hush"},
		"a file":                {JWKS: "file:///hush"},
		"no URL":                {JWKS: "https://hush:hush@%zz"},
		"not a set":             {KeySet: []byte(`{"hush":1}`)},
		"not JSON":              {KeySet: []byte(`hush`)},
		"a set without keys":    {KeySet: []byte(`{"keys":[]}`)},
		"a set with a secret":   {KeySet: []byte(`{"keys":[{"kty":"oct","k":"aHVzaA"}]}`)},
		"a private key":         {PublicKeys: []crypto.PublicKey{k.rsa}},
		"a nil key":             {PublicKeys: []crypto.PublicKey{nil}},
		"a weak key":            {PublicKeys: []crypto.PublicKey{&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 2046), E: 65537}}},
		"a slow key":            {PublicKeys: []crypto.PublicKey{&rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 8192), E: 65537}}},
		"another curve":         {PublicKeys: []crypto.PublicKey{&p224.PublicKey}},
		"off the curve":         {KeySet: []byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}]}`)},
		"a cut key":             {PublicKeys: []crypto.PublicKey{ed25519.PublicKey("hush")}},
		"a short secret":        {Secret: []byte("hush")},
		"short for HS512":       {Secret: secret, Algorithms: []string{"HS512"}},
		"HMAC without a secret": {KeySet: all(), Algorithms: []string{"ES256", "HS256"}},
		"RSA with a secret":     {Secret: secret, Algorithms: []string{"RS256"}},
		"none":                  {KeySet: all(), Algorithms: []string{"none"}},
		"an unknown algorithm":  {KeySet: all(), Algorithms: []string{"es256"}},
		"no algorithms":         {KeySet: all(), Algorithms: []string{}},
		"an empty audience":     {KeySet: all(), Audience: []string{""}},
		"an empty type":         {KeySet: all(), Types: []string{""}},
	} {
		v, err := jwt.New(context.Background(), o)
		if v != nil || !errors.Is(err, jwt.ErrOptions) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, u := range []string{"https://issuer.example/keys", "http://127.0.0.1:80/", "http://[::1]/", "http://LOCALHOST:1"} {
		v, err := jwt.New(context.Background(), &jwt.Options{JWKS: u})
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		v.Close()
	}
}
