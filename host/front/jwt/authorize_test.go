package jwt_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/host/front/jwt"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A guarded is a host whose accounts are for the tenants that their keys begin with.
type guarded struct {
	*testing.T
	front *front.Front
	turns atomic.Int64 // of the accounts
}

// inside is what an account holds, and must not be in any answer to another tenant.
const inside = "plugh"

func newGuarded(t *testing.T, v *jwt.Verifier) *guarded {
	t.Helper()
	g := &guarded{T: t}
	account := &host.Type{
		Name: "account",
		Actions: []host.AnyAction{host.NewAction("whose", func(c *host.Context, _ struct{}) (string, error) {
			g.turns.Add(1)
			var claims struct{ Tenant string }
			return c.Caller().ID + " of " + claims.Tenant + inside, c.Caller().Decode(&claims)
		})},
		Connect: func(c *host.Context, _ *host.Conn) error { g.turns.Add(1); return nil },
		Subscribe: func(c *host.Context, _ *host.Conn, event string) error {
			if event == "private" {
				return &host.Error{Code: "private", Message: "These events are for none."}
			}
			return nil
		},
	}
	ctx := context.WithoutCancel(t.Context())
	engine := memkv.New()
	quiet := slog.New(slog.DiscardHandler)
	h, err := host.Open(ctx, engine, []*host.Type{account, {Name: "other"}}, &host.Options{Logger: quiet})
	testkit.Must(t, err)
	rules := map[string]jwt.Rule{"account": func(c *jwt.Claims, a *front.Access) error {
		var claims struct {
			Tenant string `json:"tenant"`
		}
		if err := c.Decode(&claims); err != nil {
			return err
		}
		if claims.Tenant == "" || !strings.HasPrefix(a.Actor.Key, claims.Tenant+":") {
			return fmt.Errorf("%s is not of %s", a.Actor, claims.Tenant)
		}
		return nil
	}}
	g.front, err = front.New(h, &front.Options{Authorize: v.Authorize(rules), Secret: make([]byte, 16), Logger: quiet})
	testkit.Must(t, err)
	t.Cleanup(func() {
		testkit.Must(t, errors.Join(g.front.Shutdown(ctx), h.Close(ctx), engine.Close()))
	})
	return g
}

// ask calls the action of an account with a token.
func (g *guarded) ask(key, bearer string) (status int, answer string) {
	r := httptest.NewRequest(http.MethodPost, "/actors/account/"+key+"/actions/whose", strings.NewReader("null"))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + bearer}}
	w := httptest.NewRecorder()
	g.front.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// of returns a token of a tenant.
func of(tenant string) string { return es256("e", map[string]any{"tenant": tenant}) }

// TestHostileCallers: a caller without a token that holds, or with another tenant's, reaches no actor, and learns nothing.
func TestHostileCallers(t *testing.T) {
	g := newGuarded(t, verifier(t, func(o *jwt.Options) { o.KeySet = all() }))
	refused := func(name, key, bearer string, want int) {
		t.Helper()
		status, answer := g.ask(key, bearer)
		if status != want || strings.Contains(answer, mark) || strings.Contains(answer, inside) || strings.Contains(answer, "acme") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	count := 0
	for _, list := range [][]hostile{hostileForms(), hostileHeaders(), hostileClaims(), hostileKeys(), hostileMixes()} {
		for _, h := range list {
			if strings.TrimSpace(h.token) == token(keys().p256, good, marked()) {
				continue // spaces around a token aren't of it in a header
			}
			if c, err := verifier(t, func(o *jwt.Options) { o.KeySet = all() }).Verify(t.Context(), strings.TrimSpace(h.token)); err == nil {
				t.Logf("%s: %s is good without the spaces", h.name, c.Subject)
				continue
			}
			count++
			refused(h.name, "acme:1", h.token, http.StatusUnauthorized)
		}
	}
	refused("expired", "acme:1", es256("e", map[string]any{"tenant": "acme", "exp": epoch.Unix() - 3600}), http.StatusUnauthorized)
	refused("without a sub", "acme:1", es256("e", map[string]any{"tenant": "acme", "sub": nil}), http.StatusUnauthorized)
	for _, tenant := range []string{"", "ac", "acme:", "evil", "ACME", "*", "acme\x00"} {
		refused("of the tenant "+tenant, "acme:1", of(tenant), http.StatusForbidden)
	}
	refused("in another letter case", "acme:1", es256("e", map[string]any{"Tenant": "acme"}), http.StatusForbidden)
	if got := g.turns.Load(); got != 0 || count < 200 {
		t.Errorf("%d turns for %d hostile callers", got, count)
	}
	if status, answer := g.ask("acme:1", of("acme")); status != http.StatusOK || answer != `"ada of acme`+inside+`"` {
		t.Errorf("the tenant's own: %d %s", status, answer)
	}
	r := httptest.NewRequest(http.MethodPost, "/actors/other/acme:1/actions/x", nil)
	r.Header.Set("Authorization", "Bearer "+of("acme"))
	w := httptest.NewRecorder()
	if g.front.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("a type without a rule: %d %s", w.Code, w.Body)
	}
}

// TestHostileSockets: the same holds for sockets, which a browser opens, and for the events of actors; what a socket may do ends with its token.
func TestHostileSockets(t *testing.T) {
	var now atomic.Int64
	v := verifier(t, func(o *jwt.Options) {
		o.KeySet, o.Leeway, o.Now = all(), -1, func() time.Time { return epoch.Add(time.Duration(now.Load())) }
	})
	g := newGuarded(t, v)
	server := httptest.NewServer(g.front)
	defer server.Close()
	dial := func(key, token string) (*websocket.Conn, int) {
		t.Helper()
		ws, resp, err := websocket.Dial(t.Context(), server.URL+"/actors/account/"+key+"/connect", &websocket.DialOptions{
			Subprotocols: []string{"greenroom.v1.json", "greenroom.bearer." + base64.RawURLEncoding.EncodeToString([]byte(token))}})
		if err != nil && resp == nil {
			t.Fatal(err)
		}
		return ws, resp.StatusCode
	}
	for bearer, want := range map[string]int{"": 401, "x": 401, of("evil"): 403, es256("e", map[string]any{"tenant": "acme", "exp": epoch.Unix() - 1}): 401} {
		if _, status := dial("acme:1", bearer); status != want {
			t.Errorf("%s: %d, want %d", bearer, status, want)
		}
	}
	ws, status := dial("acme:1", of("acme"))
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("the tenant's own socket: %d", status)
	}
	defer ws.CloseNow()
	ask := func(message, code string) {
		t.Helper()
		testkit.Must(t, ws.Write(t.Context(), websocket.MessageText, []byte(message)))
		_, b, err := ws.Read(t.Context())
		testkit.Must(t, err)
		var answer struct{ Type, Code string }
		if testkit.Must(t, json.Unmarshal(b, &answer)); answer.Code != code || (answer.Type == "error") != (code != "") {
			t.Errorf("%s: %s", message, b)
		}
	}
	ask(`{"type":"connect"}`, "")
	ask(`{"type":"subscribe","id":1,"event":"private"}`, "private")
	ask(`{"type":"subscribe","id":2,"event":"news"}`, "")
	ask(`{"type":"call","id":3,"action":"whose"}`, "")
	now.Store(int64(11 * time.Minute))
	ask(`{"type":"call","id":4,"action":"whose"}`, "unauthorized")
	ask(`{"type":"subscribe","id":5,"event":"news"}`, "unauthorized")
}

// TestNoKeys: while the keys can't be fetched callers are told to come back.
func TestNoKeys(t *testing.T) {
	g := newGuarded(t, verifier(t, func(o *jwt.Options) {
		o.JWKS, o.Client = "https://issuer.example/keys", client(&server{status: http.StatusInternalServerError})
	}))
	if status, answer := g.ask("acme:1", of("acme")); status != http.StatusServiceUnavailable || !strings.Contains(answer, `"unavailable"`) {
		t.Errorf("%d %s", status, answer)
	}
}
