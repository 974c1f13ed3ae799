package signed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/signed"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var (
	ctx   = context.Background()
	start = time.UnixMilli(1_800_000_000_000)
	here  = [16]byte{1, 2, 3}
	there = [16]byte{4, 5, 6}
)

// A clock is set by tests. It is safe for concurrent use.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(start.UnixMilli())
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func (c *clock) pass(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// open opens Keys with a clock, which NotRotated mustn't be told of.
func open(t testing.TB, engine kv.Engine, c *clock) *signed.Keys {
	t.Helper()
	k, err := signed.Open(ctx, engine, &signed.Options{Now: c.now, NotRotated: func(err error) { t.Errorf("not rotated: %v", err) }})
	testkit.Must(t, err)
	return k
}

// statement returns one with every field.
func statement() *signed.Statement {
	return &signed.Statement{To: here, Hop: 2, Caller: []byte("ada"), Rest: []byte("trace")}
}

func request(url string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		panic(err)
	}
	return r
}

// sent returns a request that k has signed.
func sent(t testing.TB, k *signed.Keys, body string, s *signed.Statement) *http.Request {
	t.Helper()
	r := request("http://one.lan/actors/chat%2Flobby?action=say&n=1")
	testkit.Must(t, k.Sign(ctx, r, []byte(body), s))
	return r
}

// verify verifies a request for here.
func verify(k *signed.Keys, r *http.Request, body string) error {
	_, err := verifyAt(k, r, []byte(body), here)
	return err
}

// verifyAt verifies a request with a body for a host.
func verifyAt(k *signed.Keys, r *http.Request, body []byte, self [16]byte) (*signed.Statement, error) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	s, err := k.Verify(ctx, r, self)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r.Body)
	if err == nil && !bytes.Equal(got, body) {
		err = errors.New("another body")
	}
	return s, err
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// counted returns a source of bytes 1, 2, 3 and so on.
func counted() func([]byte) {
	next := byte(0)
	return func(b []byte) {
		for i := range b {
			next++
			b[i] = next
		}
	}
}

func TestGolden(t *testing.T) {
	engine, c := memkv.New(), newClock()
	k, err := signed.OpenWith(ctx, engine, &signed.Options{Now: c.now}, counted())
	testkit.Must(t, err)
	row, err := engine.Get(ctx, signed.RowKey, nil)
	testkit.Must(t, err)
	if got := fmt.Sprintf("%x", row); got != goldenRow {
		t.Errorf("row %s, want %s", got, goldenRow)
	}
	if got := fmt.Sprintf("%x", signed.RowKey); got != goldenKey {
		t.Errorf("key %s, want %s", got, goldenKey)
	}
	k.Skip(7)
	if got := sent(t, k, "hello", statement()).Header.Get(signed.Header); got != goldenHeader {
		t.Errorf("header %s, want %s", got, goldenHeader)
	}

	// What was written before is read.
	other := memkv.New()
	testkit.Must(t, other.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(signed.RowKey, testkit.Unhex(t, goldenRow))}}))
	r := request("http://two.lan/actors/chat%2Flobby?action=say&n=1")
	r.Header.Set(signed.Header, goldenHeader)
	testkit.Must(t, verify(open(t, other, c), r, "hello"))
}

func TestRoundTrip(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	for _, s := range []*signed.Statement{
		{To: here, Hop: 1}, {To: here, Hop: 1<<31 - 1, Caller: []byte{}}, statement(),
	} {
		r := sent(t, from, "hello", s)
		got, err := verifyAt(to, r, []byte("hello"), here)
		testkit.Must(t, err)
		if got.To != s.To || got.Hop != s.Hop || !bytes.Equal(got.Caller, s.Caller) || (got.Caller == nil) != (s.Caller == nil) || !bytes.Equal(got.Rest, s.Rest) {
			t.Errorf("got %+v, want %+v", got, s)
		}
	}
	for _, s := range []*signed.Statement{{Hop: 1}, {To: here}, {To: here, Hop: -1}, {To: here, Hop: 1 << 31}} {
		wantErr(t, from.Sign(ctx, request("http://one.lan/"), nil, s), signed.ErrRequest)
	}
	opaque := request("http://one.lan/")
	opaque.URL.Opaque = "//one.lan/x"
	wantErr(t, from.Sign(ctx, opaque, nil, statement()), signed.ErrRequest)
	wantErr(t, from.Sign(ctx, &http.Request{}, nil, statement()), signed.ErrRequest)
	without := sent(t, from, "", statement())
	without.URL = nil
	wantErr(t, verify(to, without, ""), signed.ErrSignature)
}

// TestHTTP sends requests, whose URLs a client and a server treat differently, over a connection.
func TestHTTP(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = verifyAt(to, r, body, here)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	}))
	defer server.Close()
	for _, path := range []string{"", "/", "/?", "/a%2Fb/c%20d?q=%20+x&y", "//a//b", "/a/../b/", "/ü;x=1?ü", "?q"} {
		for _, method := range []string{"", "GET", "POST", "DELETE"} {
			r, err := http.NewRequest(method, server.URL+path, strings.NewReader("hello"))
			testkit.Must(t, err)
			r.Method = method
			testkit.Must(t, from.Sign(ctx, r, []byte("hello"), statement()))
			res, err := http.DefaultTransport.RoundTrip(r)
			testkit.Must(t, err)
			testkit.Must(t, res.Body.Close())
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s %q: %s", method, path, res.Status)
			}
		}
	}
}

// TestFlips changes each byte of everything that is signed.
func TestFlips(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	r := sent(t, from, "hello", statement())
	refused := 0
	refuse := func(what string, r *http.Request, body string) {
		t.Helper()
		refused++
		if err := verify(to, r, body); err != signed.ErrSignature {
			t.Errorf("%s: got %v, want exactly ErrSignature", what, err)
		}
	}
	flip := func(s string, i int, by byte) string { return s[:i] + string([]byte{s[i] ^ by}) + s[i+1:] }
	header := r.Header.Get(signed.Header)
	for i := range header {
		for _, by := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
			changed := r.Clone(ctx)
			changed.Header[signed.Header] = []string{flip(header, i, by)}
			refuse(fmt.Sprintf("header %d^%d", i, by), changed, "hello")
		}
	}
	texts := map[string]func(r *http.Request) *string{
		"method": func(r *http.Request) *string { return &r.Method },
		"path":   func(r *http.Request) *string { r.URL.RawPath = ""; return &r.URL.Path },
		"query":  func(r *http.Request) *string { return &r.URL.RawQuery },
	}
	for what, of := range texts {
		for i := range len(*of(r.Clone(ctx))) {
			changed := r.Clone(ctx)
			*of(changed) = flip(*of(changed), i, 1)
			refuse(fmt.Sprintf("%s %d", what, i), changed, "hello")
		}
	}
	decoded := r.Clone(ctx)
	decoded.URL.RawPath = ""
	refuse("slash decoded", decoded, "hello")
	for _, values := range [][]string{nil, {}, {""}, {"AQ"}, {header, header}, {header + "="}, {header + "A"}, {header + "AAAA"}, {header[4:]}, {header + "\n"}, {header[:8] + "\r\n" + header[8:]}, {strings.Repeat("A", signed.MaxHeader+4)}} {
		changed := r.Clone(ctx)
		changed.Header[signed.Header] = values
		refuse(fmt.Sprintf("headers %.100q", values), changed, "hello")
	}
	if to.Sessions() != 0 || refused < 8*len(header) {
		t.Errorf("%d sessions after %d requests that were refused", to.Sessions(), refused)
	}
	testkit.Must(t, verify(to, r, "hello"))
	// The body is read when the rest is known to be authentic, and so such a request has come.
	for _, body := range []string{"", "hell", "hello.", flip("hello", 0, 1), flip("hello", 4, 1)} {
		refuse("body "+body, sent(t, from, "hello", statement()), body)
	}
	refuse("a body", sent(t, from, "", statement()), "hello")
}

// TestFields says that each field of a statement makes another MAC: a part of one that is put behind the other's message is refused.
func TestFields(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	const mac = 43 // base64url of 32 bytes, or one character more
	variants := []*signed.Statement{
		statement(), {To: there, Hop: 2, Caller: []byte("ada"), Rest: []byte("trace")}, {To: here, Hop: 3, Caller: []byte("ada"), Rest: []byte("trace")},
		{To: here, Hop: 2, Caller: []byte("adb"), Rest: []byte("trace")}, {To: here, Hop: 2, Caller: []byte("adat"), Rest: []byte("race")},
		{To: here, Hop: 2, Rest: []byte("trace")}, {To: here, Hop: 2, Caller: []byte{}, Rest: []byte("trace")}, {To: here, Hop: 2, Caller: []byte("ada")},
	}
	var headers []string
	for _, s := range variants {
		from.Skip(9) // in all other respects they are the same
		headers = append(headers, sent(t, from, "", s).Header.Get(signed.Header))
	}
	for i, one := range headers {
		for j, other := range headers {
			if i == j {
				continue
			}
			if one[len(one)-mac+1:] == other[len(other)-mac+1:] {
				t.Errorf("statements %d and %d have the same MAC", i, j)
			}
			if len(one) != len(other) {
				continue // the MAC is elsewhere in its characters
			}
			r := sent(t, from, "", statement())
			r.Header.Set(signed.Header, one[:len(one)-mac-1]+other[len(other)-mac-1:])
			wantErr(t, verify(to, r, ""), signed.ErrSignature)
		}
	}
	if to.Sessions() != 0 {
		t.Errorf("%d sessions, want 0", to.Sessions())
	}
}

func TestTooLarge(t *testing.T) {
	engine, c := memkv.New(), newClock()
	k := open(t, engine, c)
	fits := 0
	for n := 12_000; n < 12_300; n++ {
		r := request("http://one.lan/")
		err := k.Sign(ctx, r, nil, &signed.Statement{To: here, Hop: 1, Rest: make([]byte, n)})
		if err == nil {
			fits = n
			if got := len(r.Header.Get(signed.Header)); got > signed.MaxHeader {
				t.Fatalf("a header of %d bytes", got)
			}
			testkit.Must(t, verify(k, r, ""))
			continue
		}
		wantErr(t, err, signed.ErrTooLarge)
		if len(r.Header) != 0 {
			t.Error("the request was changed")
		}
	}
	if fits < 12_150 || fits > 12_250 {
		t.Errorf("at most %d bytes fit", fits)
	}
	wantErr(t, k.Sign(ctx, request("http://one.lan/"), nil, &signed.Statement{To: here, Hop: 1, Caller: make([]byte, 1<<20)}), signed.ErrTooLarge)
}

func TestNotMine(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	r := sent(t, from, "", statement())
	_, err := verifyAt(to, r, nil, there)
	wantErr(t, err, signed.ErrNotMine)
	testkit.Must(t, verify(to, r, "")) // it wasn't taken
	stranger := open(t, memkv.New(), c)
	_, err = verifyAt(stranger, r, nil, there)
	wantErr(t, err, signed.ErrSignature) // of another store: it isn't told more
}

func TestSkew(t *testing.T) {
	engine, c := memkv.New(), newClock()
	for _, by := range []time.Duration{time.Minute, -time.Minute} {
		other := newClock()
		other.pass(by)
		from, to := open(t, engine, other), open(t, engine, c)
		testkit.Must(t, verify(to, sent(t, from, "", statement()), ""))
		other.pass(by / 60_000) // 1 ms
		wantErr(t, verify(to, sent(t, from, "", statement()), ""), signed.ErrSkew)
	}
}

func TestConcurrent(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	const senders, each = 8, 200
	var taken, replayed atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range each {
				r := sent(t, from, "hello", statement())
				if i%50 == 0 {
					c.pass(time.Hour) // secrets are read again, and replaced
					r = sent(t, from, "hello", statement())
				}
				for range 2 {
					switch err := verify(to, r, "hello"); {
					case err == nil:
						taken.Add(1)
					case errors.Is(err, signed.ErrReplayed):
						replayed.Add(1)
					case !errors.Is(err, signed.ErrSkew): // another goroutine let an hour pass
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() > senders*each || taken.Load() < senders || replayed.Load() > taken.Load() {
		t.Errorf("%d taken, %d replayed", taken.Load(), replayed.Load())
	}
	if row, err := engine.Get(ctx, signed.RowKey, nil); err != nil || len(row) < 3 {
		t.Errorf("row %x, %v", row, err)
	}
}

func FuzzVerify(f *testing.F) {
	engine, c := memkv.New(), newClock()
	k, err := signed.OpenWith(ctx, engine, &signed.Options{Now: c.now}, counted())
	testkit.Must(f, err)
	f.Add(goldenHeader)
	f.Add(goldenHeader[:len(goldenHeader)/2])
	f.Add("")
	f.Fuzz(func(t *testing.T, value string) {
		r := request("http://one.lan/actors/chat%2Flobby?action=say&n=1")
		r.Header[signed.Header] = []string{value}
		switch err := verify(k, r, "hello"); {
		case value == goldenHeader && (err == nil || errors.Is(err, signed.ErrReplayed)):
		case err != signed.ErrSignature:
			t.Errorf("%q: %v", value, err)
		}
	})
}

func FuzzRow(f *testing.F) {
	f.Add(testkit.Unhex(f, goldenRow))
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, row []byte) {
		created, again, err := signed.ReadRow(row)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrNewerFormat) {
				t.Errorf("%x: %v", row, err)
			}
			return
		}
		if !bytes.Equal(row, again) {
			t.Errorf("%x is written anew as %x", row, again)
		}
		if len(created) < 1 || len(created) > 3 || !slices.IsSortedFunc(created, func(a, b time.Time) int { return b.Compare(a) }) {
			t.Errorf("%x has secrets of %v", row, created)
		}
	})
}

func BenchmarkSignVerify(b *testing.B) {
	engine := memkv.New()
	k, err := signed.Open(ctx, engine, nil)
	testkit.Must(b, err)
	body, s := make([]byte, 1024), statement()
	b.ReportAllocs()
	for b.Loop() {
		r := &http.Request{Method: http.MethodPost, URL: benchURL}
		testkit.Must(b, k.Sign(ctx, r, body, s))
		_, err := verifyAt(k, r, body, here)
		testkit.Must(b, err)
	}
}

var benchURL = request("http://one.lan/actors/chat/lobby/actions/say").URL

// TestReads says that requests read nothing but the row of secrets, once a minute, and when the clock was set back.
func TestReads(t *testing.T) {
	engine, c := faultkv.New(memkv.New()), newClock()
	k := open(t, engine, c)
	engine.Reset()
	for range 3 {
		for range 100 {
			testkit.Must(t, verify(k, sent(t, k, "", statement()), ""))
		}
		c.pass(time.Minute)
	}
	c.pass(-time.Hour)
	for range 100 {
		testkit.Must(t, verify(k, sent(t, k, "", statement()), ""))
	}
	if n := engine.Counts(); n.Gets != 3 || n.Scans != 0 || n.Commits != 0 {
		t.Errorf("%+v, want 3 gets", n)
	}
}
