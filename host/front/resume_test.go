package front

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func requestWith(t testing.TB, headers map[string]string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/", nil)
	for name, v := range headers {
		r.Header[http.CanonicalHeaderKey(name)] = []string{v}
	}
	return r
}

// TestResumeToken: the bytes of a token, and that each of them counts.
func TestResumeToken(t *testing.T) {
	f := &Front{opts: Options{Secret: []byte("0123456789abcdef")}}
	a := host.Address{Type: "room", Key: "a"}
	j := host.Joined{ID: "6f8e1c1e-0000-4000-8000-000000000001", Gateway: conn.GatewayID{1, 2, 3, 4}, Request: conn.RequestID{5, 6, 7, 8}}
	token := f.resumeToken(a, j)
	const golden = "AQIDBAUGBwjDjhtt-YsAsob0WN45ddSrJ0VmQfnbq4k"
	if token != golden {
		t.Errorf("got %s, want %s", token, golden)
	}
	if got, err := f.resumed(a, j.ID, token); err != nil || got != j {
		t.Errorf("got %v, %v", got, err)
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	must(t, err)
	for i := range b {
		forged := bytes.Clone(b)
		forged[i] ^= 1
		if _, err := f.resumed(a, j.ID, base64.RawURLEncoding.EncodeToString(forged)); !errors.Is(err, host.ErrNoConn) {
			t.Errorf("byte %d doesn't count: %v", i, err)
		}
	}
	for name, c := range map[string]struct {
		a     host.Address
		id    conn.ID
		token string
	}{
		"another actor":      {host.Address{Type: "room", Key: "b"}, j.ID, token},
		"another connection": {a, "6f8e1c1e-0000-4000-8000-000000000002", token},
		"shorter":            {a, j.ID, token[:len(token)-4]},
		"longer":             {a, j.ID, token + "AAAA"},
		"no base64":          {a, j.ID, "~" + token[1:]},
	} {
		if _, err := f.resumed(c.a, c.id, c.token); !errors.Is(err, host.ErrNoConn) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.opts.Secret = []byte("0123456789abcdeg")
	if _, err := f.resumed(a, j.ID, token); !errors.Is(err, host.ErrNoConn) {
		t.Errorf("another secret: %v", err)
	}
}

// TestStoredSecret: the secret is made once, whichever caller asks first, and stays.
func TestStoredSecret(t *testing.T) {
	engine := memkv.New()
	var secrets [8][]byte
	var wg sync.WaitGroup
	for i := range secrets {
		wg.Go(func() {
			s, err := StoredSecret(t.Context(), engine)
			if err != nil {
				t.Error(err)
			}
			secrets[i] = s
		})
	}
	wg.Wait()
	for _, s := range secrets {
		if len(s) != secretSize || !bytes.Equal(s, secrets[0]) {
			t.Errorf("got %x and %x", s, secrets[0])
		}
	}
	other, err := StoredSecret(t.Context(), memkv.New())
	must(t, err)
	if bytes.Equal(other, secrets[0]) {
		t.Error("two stores have one secret")
	}
}

// TestSecretRow: the bytes of the row, and what isn't one.
func TestSecretRow(t *testing.T) {
	if got, want := hex.EncodeToString(secretKey), hex.EncodeToString([]byte("\x02greenroom.front\x00\x15\x01\x15\x01")); got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	row := append([]byte{1, 0}, bytes.Repeat([]byte{7}, 32)...)
	if got, err := parseSecret(row); err != nil || !bytes.Equal(got, row[2:]) {
		t.Errorf("got %x, %v", got, err)
	}
	for name, c := range map[string]struct {
		row  []byte
		want error
	}{
		"empty":         {nil, kv.ErrCorrupt},
		"short":         {row[:33], kv.ErrCorrupt},
		"long":          {append(bytes.Clone(row), 0), kv.ErrCorrupt},
		"newer version": {append([]byte{2, 0}, row[2:]...), kv.ErrNewerFormat},
	} {
		if _, err := parseSecret(c.row); !errors.Is(err, ErrSecret) || !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	engine := faultkv.New(memkv.New())
	broken := errors.New("broken")
	engine.Hook(func(op faultkv.Op) error { return broken })
	if _, err := StoredSecret(t.Context(), engine); !errors.Is(err, broken) {
		t.Errorf("a broken engine: %v", err)
	}
}

// FuzzSecretRow: no row harms.
func FuzzSecretRow(f *testing.F) {
	f.Add(append([]byte{1, 0}, make([]byte, 32)...))
	f.Fuzz(func(t *testing.T, row []byte) {
		s, err := parseSecret(row)
		if (err == nil) != (len(s) == secretSize) {
			t.Fatalf("got %x, %v", s, err)
		}
	})
}

// FuzzResumeToken: no text is a token but those that were made.
func FuzzResumeToken(f *testing.F) {
	front := &Front{opts: Options{Secret: []byte("0123456789abcdef")}}
	a := host.Address{Type: "room", Key: "a"}
	f.Add("AQIDBAUGBwjDjhtt-YsAsob0WN45ddSrJ0VmQfnbq4k")
	f.Fuzz(func(t *testing.T, token string) {
		j, err := front.resumed(a, "x", token)
		if err == nil && front.resumeToken(a, j) != token {
			t.Fatalf("took %q", token)
		}
	})
}
