package jwt_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/elliptic"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/host/front/jwt"
)

func client(s *server) *http.Client { return &http.Client{Transport: s} }

// A rig is a Verifier that fetches keys from a server, in a bubble of synctest whose clock it goes by.
type rig struct {
	t *testing.T
	s *server
	v *jwt.Verifier
}

// newRig returns one in t's bubble, with what the server publishes at first, and options that change sets, nil
// for none.
func newRig(t *testing.T, body string, change func(*jwt.Options)) *rig {
	s := &server{status: 200, body: body}
	v := verifier(t, func(o *jwt.Options) {
		o.JWKS, o.Client, o.Now = "https://issuer.example/keys", client(s), nil
		if change != nil {
			change(o)
		}
	})
	return &rig{t, s, v}
}

// verify verifies a token that is good for a minute, of the key kid.
func (r *rig) verify(kid string) error {
	_, err := r.v.Verify(r.t.Context(), es256(kid, map[string]any{"exp": time.Now().Unix() + 60}))
	return err
}

// wants wants an outcome for a token of the key kid, after so many fetches since the beginning.
func (r *rig) wants(kid string, want error, fetches int) {
	r.t.Helper()
	err := r.verify(kid)
	synctest.Wait() // for a fetch beside it
	if !errors.Is(err, want) {
		r.t.Errorf("a token of %q: %v, want %v", kid, err, want)
	}
	if got := r.s.count(); got != fetches {
		r.t.Errorf("a token of %q: %d fetches, want %d", kid, got, fetches)
	}
}

// TestRotation: a new key is fetched when a token names it, and an old one ends.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setOf("a"), nil)
		if got := r.s.count(); got != 0 {
			t.Errorf("%d fetches before the first token", got)
		}
		r.wants("a", nil, 1)
		r.s.publish(200, setOf("a", "b"))
		r.wants("b", jwt.ErrRefused, 1) // so shortly after the first
		time.Sleep(30 * time.Second)
		r.wants("b", nil, 2)
		r.wants("a", nil, 2)
		// "a" is withdrawn: the fetch that finds it is beside the token that is the first after ten minutes, which is taken unless the fetch is quicker.
		r.s.publish(200, setOf("b"))
		time.Sleep(10*time.Minute - 1)
		r.wants("a", nil, 2)
		time.Sleep(time.Nanosecond)
		if err := r.verify("a"); err != nil && !errors.Is(err, jwt.ErrRefused) {
			t.Error(err)
		}
		synctest.Wait()
		r.wants("a", jwt.ErrRefused, 3)
		r.wants("b", nil, 3)
		// After a long time without any token, the first waits.
		r.s.publish(200, setOf("c"))
		time.Sleep(20 * time.Minute)
		r.wants("b", jwt.ErrRefused, 4)
		r.wants("c", nil, 4)
	})
}

// TestEmptySet: an issuer that publishes no keys has withdrawn them.
func TestEmptySet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setOf("a"), nil)
		r.wants("a", nil, 1)
		r.s.publish(200, `{"keys":[]}`)
		time.Sleep(20 * time.Minute)
		r.wants("a", jwt.ErrRefused, 2)
	})
}

// TestUnknownKeys: ids that attackers make up cause one fetch in 30 seconds, and tokens of no right form none.
func TestUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setOf("a"), nil)
		for _, text := range []string{"", "a.b.c", token(keys().p256, `{"alg":"none"}`, "{}"), token(keys().p256, `{"alg":"HS256","kid":"z"}`, "{}")} {
			if _, err := r.v.Verify(r.t.Context(), text); !errors.Is(err, jwt.ErrRefused) || r.s.count() != 0 {
				t.Errorf("%q: %v, after %d fetches", text, err, r.s.count())
			}
		}
		r.wants("a", nil, 1)
		for i := range 1000 { // ten a second
			r.wants(fmt.Sprint("x", i), jwt.ErrRefused, 1+i/300)
			r.wants("a", nil, 1+i/300)
			time.Sleep(time.Second / 10)
		}
		// The signature of a known key has to be right, and another set wouldn't help.
		time.Sleep(30 * time.Second)
		if _, err := r.v.Verify(r.t.Context(), token(keys().p256, `{"alg":"ES256","kid":"a"}`, claims(nil))+"AA"); !errors.Is(err, jwt.ErrRefused) {
			t.Errorf("a tampered token: %v", err)
		}
		r.wants("a", nil, 4)
		// A token without an id that no key has signed is of an unknown key, too.
		stranger := token(keys().otherRSA, `{"alg":"RS256"}`, claims(nil))
		for range 1000 {
			if _, err := r.v.Verify(r.t.Context(), stranger); !errors.Is(err, jwt.ErrRefused) {
				t.Errorf("a token of no id: %v", err)
			}
		}
		if got := r.s.count(); got != 5 {
			t.Errorf("%d fetches, want 5", got)
		}
		time.Sleep(30 * time.Second)
		_, _ = r.v.Verify(r.t.Context(), stranger) // refused, as before
		if got := r.s.count(); got != 6 {
			t.Errorf("%d fetches, want 6", got)
		}
	})
}

// TestShared: requests that come at once wait for one fetch.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setOf("a"), nil)
		var wg sync.WaitGroup
		errs := make([]error, 100)
		for i := range errs {
			wg.Go(func() { errs[i] = r.verify([]string{"a", "x"}[i%2]) })
		}
		wg.Wait()
		for i, err := range errs {
			if want := []error{nil, jwt.ErrRefused}[i%2]; !errors.Is(err, want) {
				t.Errorf("request %d: %v, want %v", i, err, want)
			}
		}
		r.wants("a", nil, 1)
	})
}

// junk is what a server may answer instead of keys.
func junk() map[string]func(*server) {
	body := func(status int, text string) func(*server) { return func(s *server) { s.publish(status, text) } }
	return map[string]func(*server){
		"hangs": func(s *server) { s.hang(true) }, "500": body(500, setOf("a")), "204": body(204, ""), "404 with keys": body(404, setOf("b")), "empty": body(200, ""),
		"HTML": body(200, "<html>"), "a list": body(200, "[]"), "null": body(200, "null"), "no list": body(200, `{}`), "a null list": body(200, `{"keys":null}`), "a list of another type": body(200, `{"keys":"a"}`),
		"two lists": body(200, `{"keys":[],"keys":[]}`), "cut": body(200, setOf("b")[:40]), "too many keys": body(200, `{"keys":[`+strings.Repeat("{},", 64)+`{}]}`),
		"huge": body(200, `{"keys":[]}`+strings.Repeat(" ", 512<<10)), "followed by something": body(200, setOf("b")+"x"),
		"redirect without a place": body(302, ""),
	}
}

// TestJunk: without keys, what the server answers instead is ErrUnavailable, for as long as it does; with
// keys, those go on to be used, and to be asked for, but not for ever.
func TestJunk(t *testing.T) {
	for name, break_ := range junk() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, setOf("a"), nil)
				break_(r.s)
				r.wants("a", jwt.ErrUnavailable, 1)
				r.wants("a", jwt.ErrUnavailable, 1)
				time.Sleep(30 * time.Second)
				r.wants("a", jwt.ErrUnavailable, 2)
				r.s.publish(200, setOf("a"))
				time.Sleep(30 * time.Second)
				r.wants("a", nil, 3)
			})
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, setOf("a"), nil)
				r.wants("a", nil, 1)
				break_(r.s)
				for i := range 4 { // of which the fetch hangs beside the token
					time.Sleep(10 * time.Minute)
					began := time.Now()
					if err := r.verify("a"); err != nil {
						t.Errorf("round %d: %v", i, err)
					}
					if i == 0 && time.Since(began) != 0 {
						t.Errorf("a token waits for a server that is down")
					}
				}
				time.Sleep(10 * time.Second)
				if got := r.s.count(); got != 5 {
					t.Errorf("%d fetches, want 5", got)
				}
				r.wants("b", jwt.ErrUnavailable, 5) // there might be such a key
				time.Sleep(24 * time.Hour)
				r.wants("a", jwt.ErrUnavailable, 6)
				r.s.publish(200, setOf("a"))
				time.Sleep(30 * time.Second)
				r.wants("a", nil, 7)
			})
		})
	}
}

// TestHang: a server that hangs holds up the tokens that need it until FetchTimeout, and no other ones.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setOf("a"), nil)
		r.wants("a", nil, 1)
		r.s.hang(true)
		time.Sleep(30 * time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.verify("b"); !errors.Is(err, jwt.ErrUnavailable) || time.Since(began) != 5*time.Second {
				t.Errorf("an unknown key: %v, after %v", err, time.Since(began))
			}
		})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			defer cancel()
			_, err := r.v.Verify(ctx, es256("b", nil))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("a request that is over: %v, after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		if err := r.verify("a"); err != nil || time.Since(began) != 0 {
			t.Errorf("a known key: %v, after %v", err, time.Since(began))
		}
		wg.Wait()
		if got := r.s.count(); got != 2 {
			t.Errorf("%d fetches, want 2", got)
		}
		// Keys that are too old to do without a fetch aren't used while one is under way.
		time.Sleep(time.Hour)
		began = time.Now()
		wg.Go(func() { _ = r.verify("a") }) // waits, as the next one
		synctest.Wait()
		if err := r.verify("a"); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("an old key: %v, after %v", err, time.Since(began))
		}
		wg.Wait()
	})
}

// TestOneFetch: there is one fetch at a time, also if it takes longer than MinInterval.
func TestOneFetch(t *testing.T) {
	slow := func(o *jwt.Options) { o.FetchTimeout, o.MinInterval = time.Minute, time.Second }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", slow)
		r.s.hang(true)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := r.verify("a"); !errors.Is(err, jwt.ErrUnavailable) {
					t.Error(err)
				}
			})
			time.Sleep(5 * time.Second)
		}
		wg.Wait()
		if got := r.s.count(); got != 1 {
			t.Errorf("%d fetches, want 1", got)
		}
	})
}

// TestCloseEndsFetch: Close doesn't wait for a server that hangs, and the tokens that wait for it are told.
func TestCloseEndsFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "", nil)
		r.s.hang(true)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.verify("a"); !errors.Is(err, jwt.ErrClosed) {
				t.Errorf("a token that waits: %v", err)
			}
		})
		synctest.Wait()
		r.v.Close()
		wg.Wait()
		if d := time.Since(began); d != 0 {
			t.Errorf("closed after %v", d)
		}
	})
}

// TestRedirects: keys come by https to the end.
func TestRedirects(t *testing.T) {
	for _, tt := range []struct {
		url, to string
		fetches int
	}{
		{"https://issuer.example/keys", "http://issuer.example/keys", 1},
		{"https://issuer.example/keys", "http://127.0.0.1/keys", 1},
		{"https://issuer.example/keys", "file:///etc/keys", 1},
		{"https://issuer.example/keys", "https://issuer.example/again", 4},
		{"http://127.0.0.1/keys", "http://evil.example/keys", 1},
		{"http://127.0.0.1/keys", "http://localhost/again", 4},
	} {
		s := &server{status: 302, moved: tt.to}
		v := verifier(t, func(o *jwt.Options) { o.JWKS, o.Client = tt.url, client(s) })
		if _, err := v.Verify(t.Context(), es256("a", nil)); !errors.Is(err, jwt.ErrUnavailable) {
			t.Errorf("%s to %s: %v", tt.url, tt.to, err)
		}
		if got := s.count(); got != tt.fetches {
			t.Errorf("%s to %s: %d requests, want %d", tt.url, tt.to, got, tt.fetches)
		}
	}
}

// TestOwnRedirects: what a client says of redirects is heard.
func TestOwnRedirects(t *testing.T) {
	s := &server{status: 302, moved: "https://issuer.example/again"}
	c := client(s)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v := verifier(t, func(o *jwt.Options) { o.JWKS, o.Client = "https://issuer.example/keys", c })
	if _, err := v.Verify(t.Context(), es256("a", nil)); !errors.Is(err, jwt.ErrUnavailable) || s.count() != 1 {
		t.Errorf("%v, after %d requests", err, s.count())
	}
}

// TestPublishedKeys: keys of a set that aren't for the signatures of tokens are passed over, and said so in
// the log, without them.
func TestPublishedKeys(t *testing.T) {
	member := func(with string) string {
		return `{"keys":[{` + with + `,` + strings.TrimPrefix(setOf("e"), `{"keys":[{`)
	}
	oct := `{"keys":[{"kty":"oct","kid":"e","alg":"HS256","k":"` + b64(string(secret)) + `"}]}`
	small := strings.Replace(string(jwks(map[string]crypto.PublicKey{"r": &keys().rsa.PublicKey})), `"n":"`, `"n":"AAAA`, 1)
	for name, tt := range map[string]struct {
		body, token string
		want        error
	}{
		"as it is":                    {setOf("e"), es256("e", nil), nil},
		"a key of no use":             {member(`"use":"sig"`), es256("e", nil), nil},
		"operations":                  {member(`"key_ops":["verify"]`), es256("e", nil), nil},
		"its algorithm":               {member(`"alg":"ES256"`), es256("e", nil), nil},
		"another algorithm":           {member(`"alg":"ES384"`), es256("e", nil), jwt.ErrRefused},
		"for encryption":              {member(`"use":"enc"`), es256("e", nil), jwt.ErrRefused},
		"other operations":            {member(`"key_ops":["deriveKey"]`), es256("e", nil), jwt.ErrRefused},
		"private":                     {member(`"d":"xyzzy"`), es256("e", nil), jwt.ErrRefused},
		"twice a member":              {member(`"kty":"EC"`), es256("e", nil), jwt.ErrRefused},
		"one bad, one good":           {`{"keys":[{"kty":"xyzzy"},"xyzzy",` + strings.TrimPrefix(setOf("e"), `{"keys":[`), es256("e", nil), nil},
		"a secret":                    {oct, token(secret, `{"alg":"HS256","kid":"e"}`, claims(nil)), jwt.ErrRefused},
		"an RSA key, padded":          {small, token(keys().rsa, `{"alg":"RS256","kid":"r"}`, claims(nil)), nil},
		"off the curve":               {strings.Replace(setOf("e"), `"x":"`, `"x":"AAAA`, 1), es256("e", nil), jwt.ErrRefused},
		"another curve":               {strings.Replace(setOf("e"), elliptic.P256().Params().Name, "P-384", 1), es256("e", nil), jwt.ErrRefused},
		"no id":                       {setOf(""), es256("", nil), nil},
		"no id, but one in the token": {setOf(""), es256("e", nil), jwt.ErrRefused},
	} {
		var log bytes.Buffer
		s := &server{status: 200, body: tt.body}
		v := verifier(t, func(o *jwt.Options) {
			o.JWKS, o.Client, o.Logger = "https://u:xyzzy@issuer.example/keys?xyzzy", client(s), slog.New(slog.NewTextHandler(&log, nil))
		})
		if _, err := v.Verify(t.Context(), tt.token); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v; %s", name, err, tt.want, &log)
		}
		if strings.Contains(log.String(), "xyzzy") {
			t.Errorf("%s: the log says %s", name, &log)
		}
	}
}

// TestLogHidesURL: the log says why there are no keys, without the URL.
func TestLogHidesURL(t *testing.T) {
	var log bytes.Buffer
	v := verifier(t, func(o *jwt.Options) {
		o.JWKS, o.Client = "https://u:xyzzy@issuer.example/keys?xyzzy", &http.Client{Transport: refusing{}}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	if _, err := v.Verify(t.Context(), es256("e", nil)); !errors.Is(err, jwt.ErrUnavailable) {
		t.Error(err)
	}
	if s := log.String(); !strings.Contains(s, "no route") || strings.Contains(s, "xyzzy") {
		t.Errorf("the log says %s", s)
	}
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }
