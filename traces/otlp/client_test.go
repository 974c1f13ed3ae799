package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/traces"
)

// A request is what an endpoint got.
type request struct {
	header http.Header
	url    string
	body   []byte
	at     time.Time
}

// An endpoint answers requests without a network: with one answer after the other, and
// then always with the last.
type endpoint struct {
	answers []func(*http.Request) (*http.Response, error)

	mu   sync.Mutex
	reqs []request // +checklocks:mu
}

func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	answer := e.answers[min(len(e.reqs), len(e.answers)-1)]
	e.reqs = append(e.reqs, request{req.Header, req.URL.String(), body, time.Now()})
	e.mu.Unlock()
	return answer(req)
}

// status answers with a status and a body; the rest are a header's names and values.
func status200(body string, header ...string) func(*http.Request) (*http.Response, error) {
	return statusOf(200, body, header...)
}

func statusOf(code int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		for i := 0; i < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

var errNetwork = errors.New("no route")

func unreachable(*http.Request) (*http.Response, error) { return nil, errNetwork }

// silent never answers.
func silent(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func newTestClient(t *testing.T, e *endpoint, opts ClientOptions) *Client {
	t.Helper()
	opts.HTTP = &http.Client{Transport: e}
	c, err := NewClient("http://collector:4318", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func some(n int) []traces.SpanData {
	spans := make([]traces.SpanData, n)
	for i := range spans {
		spans[i] = order()
		spans[i].SpanID = traces.SpanID{1, byte(i >> 8), byte(i)}
	}
	return spans
}

// TestSend reads what one request has, in both encodings.
func TestSend(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		for _, plain := range []bool{false, true} {
			e := &endpoint{answers: []func(*http.Request) (*http.Response, error){status200("")}}
			c := newTestClient(t, e, ClientOptions{JSON: asJSON, Uncompressed: plain, Header: http.Header{"Authorization": {"Bearer x"}}})
			sent, err := c.Send(t.Context(), some(3))
			if err != nil || sent != (Sent{Spans: 3, Requests: 1}) {
				t.Fatalf("got %+v, %v", sent, err)
			}
			r := e.reqs[0]
			if r.url != "http://collector:4318/v1/traces" || r.header.Get("Authorization") != "Bearer x" || r.header.Get("User-Agent") != "greenroom-otlp" {
				t.Errorf("got %s, %v", r.url, r.header)
			}
			body := r.body
			if got := r.header.Get("Content-Encoding"); plain != (got == "") {
				t.Errorf("encoding %q", got)
			}
			if !plain {
				body = unzip(t, body)
			}
			parse, want := ParseBinary, "application/x-protobuf"
			if asJSON {
				parse, want = ParseJSON, "application/json"
			}
			if got := r.header.Get("Content-Type"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if spans, err := parse(body); err != nil || len(spans) != 3 || spans[2].SpanID != some(3)[2].SpanID {
				t.Errorf("got %+v, %v", spans, err)
			}
		}
	}
}

func unzip(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	b, err = io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBatches cuts requests by spans and by bytes.
func TestBatches(t *testing.T) {
	size := func(n int) int {
		b, err := AppendBinary(nil, some(n))
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	for _, c := range []struct {
		opts ClientOptions
		want []int // spans in the requests
	}{
		{ClientOptions{BatchSpans: 4}, []int{4, 4, 2}},
		{ClientOptions{BatchBytes: size(1)}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{ClientOptions{BatchBytes: 1}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{ClientOptions{BatchBytes: size(5)}, []int{5, 5}},
	} {
		c.opts.Uncompressed = true
		e := &endpoint{answers: []func(*http.Request) (*http.Response, error){status200("")}}
		sent, err := newTestClient(t, e, c.opts).Send(t.Context(), some(10))
		if err != nil || sent.Spans != 10 || sent.Requests != len(e.reqs) {
			t.Fatalf("got %+v, %v", sent, err)
		}
		var got []int
		for _, r := range e.reqs {
			spans, err := ParseBinary(r.body)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, len(spans))
			if len(spans) > 1 && c.opts.BatchBytes > 0 && len(r.body) > c.opts.BatchBytes {
				t.Errorf("%d bytes, more than %d", len(r.body), c.opts.BatchBytes)
			}
		}
		if len(got) != len(c.want) || got[0] != c.want[0] {
			t.Errorf("%+v: got %v, want %v", c.opts, got, c.want)
		}
	}
}

// TestRetry tries again what OTLP says may be tried again, waits as it says, and sends the
// same spans.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answers: []func(*http.Request) (*http.Response, error){
			unreachable, statusOf(429, "", "Retry-After", "7"), statusOf(502, ""), statusOf(503, "", "Retry-After", "soon"), statusOf(504, ""), silent, status200(""),
		}}
		began := time.Now()
		sent, err := newTestClient(t, e, ClientOptions{Timeout: 3 * time.Second}).Send(t.Context(), some(1))
		if err != nil || sent != (Sent{Spans: 1, Requests: 1, Retries: 6}) {
			t.Fatalf("got %+v, %v", sent, err)
		}
		at := func(i int) time.Duration { return e.reqs[i].at.Sub(began) }
		if d := at(1) - at(0); d < 250*time.Millisecond || d >= 750*time.Millisecond {
			t.Errorf("the first wait was %v", d)
		}
		if d := at(2) - at(1); d != 7*time.Second {
			t.Errorf("asked for 7 s, it was %v", d)
		}
		if d := at(3) - at(2); d < time.Second || d >= 3*time.Second { // 2 s, more or less
			t.Errorf("the third wait was %v", d)
		}
		if d := at(6) - at(5); d < 3*time.Second+8*time.Second || d >= 3*time.Second+24*time.Second {
			t.Errorf("after a timeout of 3 s it was %v", d)
		}
		for _, r := range e.reqs {
			if !bytes.Equal(r.body, e.reqs[0].body) {
				t.Error("another body")
			}
		}
	})
}

// TestGiveUp ends with the last error: at once for what stays wrong, or when the time is
// over.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			answer func(*http.Request) (*http.Response, error)
			want   string
			once   bool
		}{
			{statusOf(400, "\x12\x07bad\x1b[2J", "Content-Type", typeBinary), "otlp: refused with status 400: bad [2J", true},
			{statusOf(401, `{"code":16,"message":"who are you?"}`, "Content-Type", "application/json; charset=utf-8"), "otlp: refused with status 401: who are you?", true},
			{statusOf(404, "not found", "Content-Type", "text/plain"), "otlp: refused with status 404: not found", true},
			{statusOf(500, "<html>", "Content-Type", "text/html"), "otlp: refused with status 500", true},
			{statusOf(503, ""), "otlp: refused with status 503", false},
			{statusOf(429, "", "Retry-After", "3600"), "otlp: refused with status 429", true}, // longer than there is time
			{unreachable, `otlp: Post "http://collector:4318/v1/traces": no route`, false},
		} {
			e := &endpoint{answers: []func(*http.Request) (*http.Response, error){c.answer}}
			began := time.Now()
			sent, err := newTestClient(t, e, ClientOptions{}).Send(t.Context(), some(1))
			if err == nil || err.Error() != c.want || sent.Spans != 0 || c.once != (len(e.reqs) == 1) {
				t.Errorf("got %+v, %v after %d requests, want %q", sent, err, len(e.reqs), c.want)
			}
			if status := (*StatusError)(nil); errors.As(err, &status) != errors.Is(err, ErrStatus) {
				t.Errorf("%v is half a status", err)
			}
			if d := time.Since(began); d > defaultGiveUp {
				t.Errorf("%v: it took %v", err, d)
			}
		}
	})
}

// TestSendContext ends with the context, while it waits and while it sends, and says what
// was sent before.
func TestSendContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []func(*http.Request) (*http.Response, error){statusOf(503, ""), silent} {
			e := &endpoint{answers: []func(*http.Request) (*http.Response, error){status200(""), last}}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			began := time.Now()
			sent, err := newTestClient(t, e, ClientOptions{GiveUp: -1, BatchSpans: 2}).Send(ctx, some(3))
			if !errors.Is(err, context.DeadlineExceeded) || sent.Spans != 2 || sent.Requests != 1 || sent.Retries < 4 {
				t.Errorf("got %+v, %v", sent, err)
			}
			if d := time.Since(began); d != 2*time.Minute {
				t.Errorf("it took %v", d)
			}
		}
	})
}

// TestPartial counts what the endpoint threw away, and doesn't send it again.
func TestPartial(t *testing.T) {
	for _, c := range []struct {
		answer func(*http.Request) (*http.Response, error)
		want   Sent
	}{
		{status200("\x0a\x06\x08\x03\x12\x02no", "Content-Type", typeBinary), Sent{Spans: 4, Rejected: 3, Requests: 1, Message: "no"}},
		{status200(`{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}`, "Content-Type", typeJSON), Sent{Spans: 4, Rejected: 3, Requests: 1, Message: "no"}},
		{status200(`{"partialSuccess":{"rejectedSpans":2}}`, "Content-Type", typeJSON), Sent{Spans: 4, Rejected: 2, Requests: 1}},
		{status200(`{"partialSuccess":{"errorMessage":"slow down"}}`, "Content-Type", typeJSON), Sent{Spans: 4, Requests: 1, Message: "slow down"}},
		{status200("ok"), Sent{Spans: 4, Requests: 1}},
		{status200("{", "Content-Type", typeJSON), Sent{Spans: 4, Requests: 1}},
		{statusOf(202, "\xff", "Content-Type", typeBinary), Sent{Spans: 4, Requests: 1}},
	} {
		e := &endpoint{answers: []func(*http.Request) (*http.Response, error){c.answer}}
		if got, err := newTestClient(t, e, ClientOptions{}).Send(t.Context(), some(4)); err != nil || got != c.want {
			t.Errorf("got %+v, %v, want %+v", got, err, c.want)
		}
	}
}

func TestNewClient(t *testing.T) {
	for in, want := range map[string]string{
		"http://localhost:4318":             "http://localhost:4318/v1/traces",
		"https://localhost/":                "https://localhost/v1/traces",
		"https://localhost/otlp/v1/traces":  "https://localhost/otlp/v1/traces",
		"http://localhost?tenant=1":         "http://localhost/v1/traces?tenant=1",
		"localhost:4318":                    "",
		"http://":                           "",
		"ftp://localhost":                   "",
		"http://user:secret@local host/%zz": "",
	} {
		c, err := NewClient(in, nil)
		switch {
		case want == "" && (!errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: got %v", in, err)
		case want != "" && (err != nil || c.url != want):
			t.Errorf("%s: got %+v, %v", in, c, err)
		}
	}
	for _, opts := range []ClientOptions{{Timeout: -1}, {FirstWait: -1}, {MaxWait: -1}, {BatchSpans: -1}, {BatchBytes: -1}} {
		if _, err := NewClient("http://localhost", &opts); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: got %v", opts, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for in, want := range map[string]time.Duration{
			"": 0, "0": 0, "12": 12 * time.Second, "-1": 0, "x": 0, "99999999999999999999": 0,
			time.Now().Add(time.Hour).UTC().Format(http.TimeFormat):  time.Hour,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): 0,
		} {
			if got := retryAfter(in); got != want {
				t.Errorf("%q: got %v, want %v", in, got, want)
			}
		}
	})
}

// TestNetwork sends over loopback, to a server that drops the first connection.
func TestNetwork(t *testing.T) {
	var mu sync.Mutex
	calls, got := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls == 1 {
			panic(http.ErrAbortHandler)
		}
		zr, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := io.ReadAll(zr)
		if err != nil {
			t.Error(err)
			return
		}
		spans, err := ParseBinary(b)
		if err != nil {
			t.Error(err)
		}
		got += len(spans)
		w.Header().Set("Content-Type", typeBinary)
		w.Header().Set("Content-Length", strconv.Itoa(0))
	}))
	defer server.Close()
	c, err := NewClient(server.URL, &ClientOptions{FirstWait: time.Millisecond, Timeout: time.Hour, GiveUp: -1})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := c.Send(t.Context(), some(20))
	mu.Lock()
	defer mu.Unlock()
	if err != nil || sent != (Sent{Spans: 20, Requests: 1, Retries: 1}) || got != 20 {
		t.Errorf("sent %+v, %v; %d came", sent, err, got)
	}
}

// TestRedirect follows none: of a 302 the standard library makes a request without a body,
// to which a server may say yes.
func TestRedirect(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls++; r.URL.Path != "/elsewhere" {
				http.Redirect(w, r, "/elsewhere", code)
			}
		}))
		c, err := NewClient(server.URL, &ClientOptions{Timeout: time.Hour, GiveUp: -1})
		if err != nil {
			t.Fatal(err)
		}
		sent, err := c.Send(t.Context(), some(1))
		status := (*StatusError)(nil)
		if !errors.As(err, &status) || status.Code != code || status.Message != "it is at /elsewhere" || sent.Spans != 0 {
			t.Errorf("%d: got %+v, %v", code, sent, err)
		}
		server.Close()
		if calls != 1 {
			t.Errorf("%d: %d requests", code, calls)
		}
	}
	if http.DefaultClient.CheckRedirect != nil {
		t.Error("everybody's client was changed")
	}
}
