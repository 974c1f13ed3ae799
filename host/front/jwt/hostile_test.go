package jwt_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/greenroomdb/greenroom/host/front/jwt"
)

// mark is in what hostile tokens say, and must not be in any error.
const mark = "xyzzy"

// A hostile token is to be refused.
type hostile struct{ name, token string }

// good is the header of a token of the key "e", and marked its claims.
const good = `{"alg":"ES256","kid":"e"}`

func marked() string { return claims(map[string]any{"sub": mark}) }

// hostileForms aren't three parts of base64url.
func hostileForms() (hs []hostile) {
	whole := token(keys().p256, good, marked())
	p := strings.Split(whole, ".")
	h, c, s := p[0], p[1], p[2]
	for name, text := range map[string]string{
		"empty": "", "a dot": ".", "two dots": "..", "three dots": "...", "a word": mark,
		"one part": h, "two parts": h + "." + c, "a fourth part": whole + "." + s, "five parts": whole + "." + s + "." + s,
		"a dot more": whole + ".", "a dot before": "." + whole, "twice": whole + whole, "five parts as of encryption": h + "...." + s,
		"no header": "." + c + "." + s, "no claims": h + ".." + s, "no signature": h + "." + c + ".", "only claims": "." + c + ".",
		"a space before": " " + whole, "a space behind": whole + " ", "a line end behind": whole + "\n", "a line end within": h + ".\n" + c + "." + s,
		"a line end in the header": h[:4] + "\r\n" + h[4:] + "." + c + "." + s, "a zero byte": whole + "\x00", "a byte of no text": whole + "\xff",
		"padding": whole + "==", "padding of the header": h + "==." + c + "." + s, "standard base64": h + "." + c + "." + strings.Repeat("+/", 43),
		"commas": strings.ReplaceAll(whole, ".", ","), "in base64 once more": b64(whole), "a scheme": "Bearer " + whole,
		"JSON": fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, h, c, s), "not base64": h + ".!" + c[1:] + "." + s,
		"huge": token(keys().p256, good, claims(map[string]any{"x": strings.Repeat("x", jwt.MaxToken)})), "huge dots": strings.Repeat(".", 1<<20),
		"huge header":     token(keys().p256, `{"alg":"ES256","kid":"e","x":"`+strings.Repeat("x", jwt.MaxToken)+`"}`, marked()),
		"a byte too long": h + "." + c + "." + strings.Repeat("A", jwt.MaxToken+1-len(h)-len(c)-2),
		"superfluous bits": func() string {
			// 64 bytes end in a letter of which two bits count.
			last := strings.IndexByte(alphabet, s[len(s)-1])
			return h + "." + c + "." + s[:len(s)-1] + string(alphabet[last+1])
		}(),
	} {
		hs = append(hs, hostile{"form: " + name, text})
	}
	return hs
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// hostileHeaders are signed by the issuer's key, and say something that isn't to be taken.
func hostileHeaders() (hs []hostile) {
	for _, header := range []string{
		`{"alg":"none","kid":"e"}`, `{"alg":"None"}`, `{"alg":"NONE","kid":"e"}`, `{"alg":"","kid":"e"}`, `{"kid":"e"}`, `{}`, `[]`, `null`, `1`, `"ES256"`, `xyzzy`,
		`{"alg":"es256","kid":"e"}`, `{"ALG":"ES256","kid":"e"}`, `{"alg":["ES256"],"kid":"e"}`, `{"alg":null,"kid":"e"}`, `{"alg":1,"kid":"e"}`, `{"alg":"ES256 ","kid":"e"}`,
		`{"alg":"ES384","kid":"e"}`, `{"alg":"ES512","kid":"e"}`, `{"alg":"ES256K","kid":"e"}`, `{"alg":"RS256","kid":"e"}`, `{"alg":"EdDSA","kid":"e"}`, `{"alg":"HS256","kid":"e"}`, `{"alg":"xyzzy","kid":"e"}`,
		`{"alg":"ES256","alg":"ES256","kid":"e"}`, `{"alg":"none","alg":"ES256","kid":"e"}`, `{"alg":"ES256","\u0061lg":"none","kid":"e"}`, `{"alg":"ES256","kid":"e","kid":"xyzzy"}`,
		`{"alg":"ES256","kid":"xyzzy"}`, `{"alg":"ES256","kid":"E"}`, `{"alg":"ES256","kid":"r"}`, `{"alg":"ES256","kid":"e3"}`, `{"alg":"ES256","kid":1}`, `{"alg":"ES256","kid":["e"]}`, `{"alg":"ES256","kid":"e\u0000"}`, `{"alg":"ES256","kid":"../e"}`,
		`{"alg":"ES256","kid":"e","crit":["xyzzy"],"xyzzy":1}`, `{"alg":"ES256","kid":"e","crit":[]}`, `{"alg":"ES256","kid":"e","crit":null}`, `{"alg":"ES256","kid":"e","crit":"exp"}`, `{"alg":"ES256","kid":"e","crit":["b64"],"b64":true}`, `{"alg":"ES256","kid":"e","b64":true}`, `{"alg":"ES256","kid":"e","b64":false}`,
		`{"alg":"ES256","kid":"e","typ":"xyzzy"}`, `{"alg":"ES256","kid":"e","typ":"logout+jwt"}`, `{"alg":"ES256","kid":"e","typ":["JWT"]}`, `{"alg":"ES256","kid":"e","typ":"application/application/jwt"}`,
		`{"alg":"ES256","kid":"e"}{}`, `{"alg":"ES256","kid":"e"`, `{"alg":"ES256","kid":"e",}`, "{\"alg\":\"ES256\",\"kid\":\"e\"}\x00",
	} {
		hs = append(hs, hostile{"header: " + header, token(keys().p256, header, marked())})
	}
	return hs
}

// hostileClaims are signed by the issuer's key.
func hostileClaims() (hs []hostile) {
	add := func(name, payload string) {
		hs = append(hs, hostile{"claims: " + name, token(keys().p256, good, payload)})
	}
	at := epoch.Unix()
	for name, v := range map[string][]any{
		"exp": {nil, "1900000000", true, -1, 1e12, 1e300, []any{at + 600}, map[string]any{}}, "nbf": {at + 600, "0", -1, false, 1e300}, "iat": {at + 600, "0", -1, 1e300},
		"iss": {nil, "", "https://evil.example", issuer + "/", strings.ToUpper(issuer), issuer + "\x00", 1, []string{issuer}},
		"aud": {nil, "", "other", []string{}, []string{"other", ""}, strings.ToUpper(audience), audience + " other", 1, []any{audience, 1}, map[string]any{audience: true}},
		"sub": {1, []string{mark}, map[string]any{}}, "jti": {1}, "scope": {1, []string{"a"}}, "scp": {1, []any{1}},
	} {
		for _, v := range v {
			change := map[string]any{"sub": mark}
			change[name] = v
			add(fmt.Sprintf("%s: %v", name, v), claims(change))
		}
	}
	whole := marked()
	for _, payload := range []string{
		`null`, `[]`, `1`, `"xyzzy"`, `xyzzy`, `{`, `{}`, whole + whole, whole + "x", "\xef\xbb\xbf" + whole, strings.Repeat("[", 5000), strings.Repeat(`{"a":`, 1000),
		`{"exp":null,` + `"iss":"` + issuer + `","aud":"greenroom"}`, strings.Replace(whole, `"sub"`, `"SUB"`, 1)[:10],
		strings.Replace(whole, `"exp"`, `"EXP"`, 1), strings.Replace(whole, `"iss"`, `"Iss"`, 1), strings.Replace(whole, mark, "\xff", 1),
		`{"exp":1e999,` + whole[1:], `{"exp":NaN,"iss":"` + issuer + `","aud":"greenroom"}`, `{"exp":1e999,"iss":"` + issuer + `","aud":"greenroom"}`,
		`{"sub":"root",` + whole[1:], `{"s\u0075b":"root",` + whole[1:], `{"aud":"other",` + whole[1:], `{"exp":1900000000,` + whole[1:],
		`{"x":{"a":1,"a":2},` + whole[1:], `{"x":[{"a":1,"\u0061":2}],` + whole[1:],
	} {
		add(payload[:min(len(payload), 60)], payload)
	}
	return hs
}

// hostileKeys are signed with keys of others, or with what only looks like a key.
func hostileKeys() (hs []hostile) {
	k := keys()
	add := func(name, text string) { hs = append(hs, hostile{"key: " + name, text}) }
	der, err := x509.MarshalPKIXPublicKey(&k.rsa.PublicKey)
	if err != nil {
		panic(err)
	}
	jwk := func(key any) string {
		text, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "r"})
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	for name, secret := range map[string][]byte{
		"DER": der, "PKCS #1": x509.MarshalPKCS1PublicKey(&k.rsa.PublicKey), "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
		"JWK": []byte(jwk(&k.rsa.PublicKey)), "modulus": k.rsa.N.Bytes(), "empty": {}, "Ed25519": k.ed.Public().(ed25519.PublicKey),
	} {
		for _, header := range []string{`{"alg":"HS256","kid":"r"}`, `{"alg":"HS256","kid":"d"}`, `{"alg":"HS256"}`, `{"alg":"RS256","kid":"r"}`, `{"alg":"EdDSA","kid":"d"}`} {
			add("HMAC by the public key as "+name+": "+header, token(secret, header, marked()))
		}
	}
	url := `"https://evil.example/keys"`
	other := jwk(&k.otherRSA.PublicKey)
	for _, header := range []string{
		`{"alg":"RS256","kid":"r"}`, `{"alg":"RS256"}`, `{"alg":"RS256","jwk":` + other + `}`, `{"alg":"RS256","kid":"r","jwk":` + other + `}`,
		`{"alg":"RS256","jku":` + url + `}`, `{"alg":"RS256","kid":"r","jku":` + url + `}`, `{"alg":"RS256","x5u":` + url + `}`, `{"alg":"RS256","kid":"new","jku":` + url + `,"x5u":` + url + `}`,
		`{"alg":"RS256","kid":"r","x5c":["` + base64.StdEncoding.EncodeToString(der) + `"]}`, `{"alg":"RS256","kid":"r","x5t":"xyzzy"}`, `{"alg":"PS256","kid":"r"}`,
		`{"alg":"RS256","jwk":` + jwk(k.otherRSA) + `}`, `{"alg":"RS256","jwk":{"kty":"oct","k":"AAAA"}}`,
	} {
		add("another RSA key: "+header, token(k.otherRSA, header, marked()))
	}
	add("RS256 as PS256", token(k.rsa, `{"alg":"PS256","kid":"r"}`, marked()))
	add("RS256 as RS512", token(k.rsa, `{"alg":"RS512","kid":"r"}`, marked()))
	add("P-384 as ES256", token(k.p384, `{"alg":"ES256","kid":"e3"}`, marked()))
	add("without a key, none", b64(`{"alg":"none"}`)+"."+b64(marked())+".")
	add("without a key, none, with a signature", b64(`{"alg":"none"}`)+"."+b64(marked())+".AAAA")
	for _, n := range []int{1, 32, 63, 64, 65, 96, 256} {
		add(fmt.Sprintf("%d zeros", n), b64(good)+"."+b64(marked())+"."+b64(strings.Repeat("\x00", n)))
	}
	return hs
}

// hostileMixes are of parts of good tokens that don't belong together, each letter of one changed among them.
func hostileMixes() (hs []hostile) {
	k := keys()
	a, b := token(k.p256, good, marked()), token(k.p256, good, claims(map[string]any{"sub": "root"}))
	p, q := strings.Split(a, "."), strings.Split(b, ".")
	hs = append(hs, hostile{"mix: claims of one, signature of another", p[0] + "." + q[1] + "." + p[2]},
		hostile{"mix: signature of another", p[0] + "." + p[1] + "." + q[2]},
		hostile{"mix: header of another", b64(`{"alg":"ES256","kid":"e" }`) + "." + p[1] + "." + p[2]},
		hostile{"mix: in another order", p[1] + "." + p[0] + "." + p[2]})
	for i := range a {
		letter := byte('A')
		if a[i] == letter {
			letter = 'Q'
		}
		hs = append(hs, hostile{fmt.Sprintf("mix: letter %d", i), a[:i] + string(letter) + a[i+1:]},
			hostile{fmt.Sprintf("mix: without letter %d", i), a[:i] + a[i+1:]})
	}
	return hs
}

// TestHostile: all of them are refused, by keys that are known and by keys that are fetched, and for each no
// more than the one set is fetched.
func TestHostile(t *testing.T) {
	ctx := context.Background()
	s := &server{status: 200, body: string(all())}
	fetched := verifier(t, func(o *jwt.Options) { o.JWKS, o.Client = "https://issuer.example/keys", client(s) })
	static := verifier(t, func(o *jwt.Options) { o.KeySet = all() })
	count := 0
	for _, list := range [][]hostile{hostileForms(), hostileHeaders(), hostileClaims(), hostileKeys(), hostileMixes()} {
		for _, h := range list {
			count++
			for _, v := range []*jwt.Verifier{static, fetched} {
				c, err := v.Verify(ctx, h.token)
				if c != nil || !errors.Is(err, jwt.ErrRefused) {
					t.Errorf("%s: %+v, %v", h.name, c, err)
				} else if strings.Contains(err.Error(), mark) || strings.Contains(err.Error(), "evil") {
					t.Errorf("%s: the error says %q", h.name, err)
				}
			}
		}
	}
	if count < 200 {
		t.Errorf("there are only %d", count)
	}
	if got := s.count(); got != 1 {
		t.Errorf("%d fetches, want 1: %q", got, s.asked)
	}
	for _, v := range []*jwt.Verifier{static, fetched} {
		if c, err := v.Verify(ctx, token(keys().p256, good, marked())); err != nil || c.Subject != mark {
			t.Errorf("the good one: %+v, %v", c, err)
		}
	}
}

// TestHostileToSecret: with a secret, a token is HMAC's and nothing else.
func TestHostileToSecret(t *testing.T) {
	v := verifier(t, func(o *jwt.Options) { o.Secret = secret })
	for name, text := range map[string]string{
		"another secret": token([]byte(mark), `{"alg":"HS256"}`, marked()), "HS512": token(secret, `{"alg":"HS512"}`, marked()),
		"none": token(secret, `{"alg":"none"}`, marked()), "RS256": token(keys().rsa, `{"alg":"RS256"}`, marked()), "EdDSA": token(keys().ed, `{"alg":"EdDSA"}`, marked()),
		"half of the secret": token(secret[:16], `{"alg":"HS256"}`, marked()), "the empty secret": token([]byte{}, `{"alg":"HS256"}`, marked()),
	} {
		if c, err := v.Verify(context.Background(), text); c != nil || !errors.Is(err, jwt.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// FuzzVerify: what is taken is what the issuer signed, and nothing panics.
func FuzzVerify(f *testing.F) {
	v := verifier(f, func(o *jwt.Options) { o.KeySet = all() })
	right := token(keys().ed, `{"alg":"EdDSA","kid":"d"}`, marked())
	f.Add(right)
	for _, list := range [][]hostile{hostileForms(), hostileHeaders(), hostileClaims()} {
		for _, h := range list {
			if len(h.token) <= 2*jwt.MaxToken {
				f.Add(h.token)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := v.Verify(context.Background(), text)
		if text == right {
			if err != nil || c.Subject != mark {
				t.Errorf("%+v, %v", c, err)
			}
			return
		}
		if c != nil || !errors.Is(err, jwt.ErrRefused) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	})
}

// FuzzClaims: claims that are signed are taken only if Decode agrees with Verify about them.
func FuzzClaims(f *testing.F) {
	v := verifier(f, func(o *jwt.Options) { o.Secret = secret })
	f.Add(claims(nil))
	f.Add(claims(map[string]any{"aud": []string{"a", audience}, "nbf": 1.5, "scp": []string{"a"}}))
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := v.Verify(context.Background(), token(secret, `{"alg":"HS256"}`, payload))
		if err != nil {
			if c != nil || !errors.Is(err, jwt.ErrRefused) && !errors.Is(err, jwt.ErrExpired) {
				t.Errorf("%q: %+v, %v", payload, c, err)
			}
			return
		}
		var all map[string]any
		if err := c.Decode(&all); err != nil || string(c.Raw) != payload || !json.Valid(c.Raw) {
			t.Fatalf("%q: %v", payload, err)
		}
		if sub, _ := all["sub"].(string); sub != c.Subject || all["iss"] != issuer || c.Issuer != issuer {
			t.Errorf("%q: %+v", payload, c)
		}
	})
}
