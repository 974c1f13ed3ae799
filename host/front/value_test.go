package front

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/cbor"
)

// TestToJSON: what each value of an actor is in JSON.
func TestToJSON(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "null"},
		{cbor.Undefined{}, "null"},
		{true, "true"},
		{-5, "-5"},
		{1.5, "1.5"},
		{int64(math.MaxInt64), "9223372036854775807"},
		{new(big.Int).Lsh(big.NewInt(1), 100), "1267650600228229401496703205376"},
		{"a\"<\n", `"a\"\u003c\n"`},
		{[]byte{0, 255}, `"AP8="`},
		{cbor.Uint8Array{1}, `"AQ=="`},
		{time.Unix(1, 5e8+1).In(time.FixedZone("", 20700)), `"1970-01-01T05:45:01.500000001+05:45"`},
		{cbor.Date{Time: time.Unix(1, 500e6)}, `"1970-01-01T00:00:01.5Z"`},
		{[]any{}, "[]"},
		{cbor.Set{int64(1), "x"}, `[1,"x"]`},
		{cbor.Map{{Key: int64(1), Value: "x"}}, `[[1,"x"]]`},
		{cbor.Object{{Name: "b", Value: int64(1)}, {Name: "a", Value: []any{nil}}}, `{"b":1,"a":[null]}`},
		{cbor.Tag{Number: 27, Value: []any{"Error"}}, `["Error"]`},
	} {
		r, err := host.Encode(c.v)
		must(t, err)
		if got := text(wire.Value(r)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.v, got, c.want)
		}
	}
	if got := text(nil); got != "null" {
		t.Errorf("nothing: %s", got)
	}
	if got := text(wire.Value("\xf9\x7e\x00")); got != "null" { // NaN, which a client may send
		t.Errorf("NaN: %s", got)
	}
	if _, err := wire.Value("\x82").MarshalJSON(); err == nil {
		t.Error("damaged CBOR became JSON")
	}
}

// TestFromJSON: what JSON is to an actor.
func TestFromJSON(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"null", "\xf6"},
		{" true ", "\xf5"},
		{"1", "\x01"},
		{"1.0", "\x01"}, // a number of JavaScript has no type
		{"1e2", "\x18\x64"},
		{"4294967296", "\xfb\x41\xf0\x00\x00\x00\x00\x00\x00"},
		{"18446744073709551615", "\x1b\xff\xff\xff\xff\xff\xff\xff\xff"},
		{`"\u00fc"`, "\x62\xc3\xbc"},
		{"[1,[]]", "\x82\x01\x80"},
		{`{"a":1,"b":2,"a":3}`, "\xb9\x00\x02\x61a\x03\x61b\x02"},
	} {
		got, err := wire.FromJSON([]byte(c.text))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %x, %v, want %x", c.text, got, err, c.want)
		}
	}
	digits := strings.Repeat("9", 1<<20)
	for _, bad := range []string{digits, `{"a":-` + digits + "}", digits + "x", `{"` + digits + `":tru}`, "", " ", "1 2", "[", "[1", `{"a"`, `{"a":}`, "nul", "1e999", "[1}", `{1:2}`, "]"} {
		if got, err := wire.FromJSON([]byte(bad)); !errors.Is(err, host.ErrArgs) || len(err.Error()) > 200 {
			t.Errorf("%.80q: got %x, %.300v", bad, got, err)
		}
	}
}

// TestBytes: bytes are a text in base64 on both ways.
func TestBytes(t *testing.T) {
	type item struct {
		ID   int64             `json:"id"`
		Data []byte            `json:"data"`
		Of   map[string][]byte `json:"of"`
	}
	r := newRig(t, Options{}, &host.Type{Name: "room", Actions: []host.AnyAction{
		host.NewAction("item", func(_ *host.Context, v item) (item, error) { return v, nil }),
		host.NewAction("bytes", func(_ *host.Context, v []byte) (int, error) { return len(v), nil }),
		host.NewAction("text", func(_ *host.Context, v string) (string, error) { return v, nil }),
	}})
	for _, c := range []struct {
		action, args string
		status       int
		want         string
	}{
		{"item", `{"id":1,"data":"AAEC","of":{"k":"/+8="}}`, 200, `{"id":1,"data":"AAEC","of":{"k":"/+8="}}`},
		{"bytes", `"AAEC"`, 200, `3`},
		{"text", `"AAEC"`, 200, `"AAEC"`},
		{"bytes", `"not base64"`, 400, `The action \"bytes\" takes bytes: in JSON a text in base64.`},
		{"item", `{"id":"1","data":"AAEC"}`, 400, `takes`},
	} {
		if status, answer := r.post(c.action, c.args); status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s of %s: %d, %s", c.action, c.args, status, answer)
		}
	}
}

// FuzzFromJSON: what is JSON becomes CBOR, and the same JSON again; what isn't is an error.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{"1", `{"a":[1,2.5,null,"x"],"b":{}}`, `[-0,1e300,18446744073709551616]`, "[[[]]]", `{"a":1,"a":2}`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := wire.FromJSON(text)
		if err != nil {
			if !errors.Is(err, host.ErrArgs) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("took %q", text)
		}
		once, err := wire.ToJSON(r)
		must(t, err)
		again, err := wire.FromJSON(once)
		must(t, err)
		twice, err := wire.ToJSON(again)
		must(t, err)
		if string(once) != string(twice) {
			t.Fatalf("%q became %s and then %s", text, once, twice)
		}
	})
}

// FuzzToJSON: what an actor returns is JSON, whatever CBOR it is.
func FuzzToJSON(f *testing.F) {
	for _, s := range []string{"\x01", "\xf7", "\xb9\x00\x01\x61a\x80", "\xd9\x01\x03\xa1\x01\x02", "\xc1\xfb\x41\xd0\x00\x00\x00\x00\x00\x00", "\xf9\x7e\x00", "\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, err := wire.ToJSON(b)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%x became %q", b, text)
		}
		if _, err := wire.FromJSON(text); err != nil && !errors.Is(err, host.ErrArgs) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// FuzzRequest: no message harms, and what is understood is understood again.
func FuzzRequest(f *testing.F) {
	f.Add(false, []byte(`{"type":"call","id":1,"action":"add","args":[1]}`))
	f.Add(false, []byte(`{"type":"connect","params":null,"hibernate":false}`))
	f.Add(true, []byte("\xa2\x64type\x64call\x62id\x05"))
	f.Fuzz(func(t *testing.T, binary bool, b []byte) {
		as := mediaJSON
		if binary {
			as = mediaCBOR
		}
		var m wire.Request
		if as.decode(b, &m) != nil {
			return
		}
		out, err := as.encode(&m)
		if err != nil { // NaN, for instance, which no actor gets
			return
		}
		var again wire.Request
		if err := as.decode(out, &again); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if m.Type != again.Type || m.ID != again.ID || m.Action != again.Action || m.Event != again.Event || m.Token != again.Token {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

// FuzzHeaders: the headers of a client can't do harm.
func FuzzHeaders(f *testing.F) {
	f.Add("application/json;q=0.5, application/cbor", "Bearer x", "greenroom.v1.json, greenroom.bearer.eA")
	f.Fuzz(func(t *testing.T, accept, authorization, protocol string) {
		r := requestWith(t, map[string]string{"Accept": accept, "Authorization": authorization, "Sec-WebSocket-Protocol": protocol})
		if m, err := accepted(r, mediaJSON); err == nil && m != mediaJSON && m != mediaCBOR {
			t.Fatalf("got %v", m)
		}
		Bearer(r)
		if _, chosen, err := chooseProtocol(subprotocols(r)); err == nil && len(chosen) > 1 {
			t.Fatalf("chose %q", chosen)
		}
	})
}
