package main

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestHostJWT: a host lets in callers with a token of the issuer, for its audience, and no others; its log is in JSON if that is asked for.
func TestHostJWT(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	b64 := base64.RawURLEncoding.EncodeToString
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":%q}]}`, b64(key.Public().(ed25519.PublicKey)))
	}))
	defer issuer.Close()
	token := func(audience string, ends time.Duration) string {
		text := b64([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." + b64(fmt.Appendf(nil, `{"iss":"issuer","aud":%q,"sub":"ann","exp":%d}`, audience, time.Now().Add(ends).Unix()))
		return text + "." + b64(ed25519.Sign(key, []byte(text)))
	}
	p := startHost(t, "", "--demo", "--jwks", issuer.URL, "--jwt-issuer", "issuer", "--jwt-audience", "shop", "--log-format", "json", "--verbose", "--log-calls")
	for bearer, want := range map[string]int{"": 401, "x": 401, token("shop", time.Hour): 200, token("bank", time.Hour): 401, token("shop", -time.Hour): 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/actors/counter/lobby/actions/add", strings.NewReader("2"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+bearer)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%q: %s, want %d", bearer, resp.Status, want)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	lines, calls := 0, 0
	for line := range strings.Lines(p.stderr.String()) {
		if lines++; !json.Valid([]byte(line)) {
			t.Errorf("the log has %s", line)
		}
		if strings.Contains(line, `"front: call","actor":"counter/lobby","action":"add","code":"ok"`) && strings.Contains(line, `"caller":"ann"`) {
			calls++
		}
	}
	if lines < 4 || calls != 1 {
		t.Errorf("the log is %s", p.stderr.String())
	}
}

// TestHostJWTFlags: flags that say too little are refused before anything is opened.
func TestHostJWTFlags(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, args := range [][]string{
		{"--jwks", "https://issuer.example/keys"}, {"--jwks", "https://issuer.example/keys", "--jwt-issuer", "issuer"}, {"--jwt-issuer", "issuer"}, {"--jwt-audience", "shop"},
		{"--jwks", "http://issuer.example/keys", "--jwt-issuer", "issuer", "--jwt-audience", "shop"}, {"--log-format", "xml"},
	} {
		if r := program(ended, strings.NewReader(""), append([]string{"host", "--demo", "--listen", "127.0.0.1:0"}, args...)...); r.code != serving.ExitUsage {
			t.Errorf("%q: status %d, %s", args, r.code, r.stderr)
		}
	}
}
