package clientproto_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

func ptr[T any](v T) *T { return &v }

// samples are messages of every type, by the names of parsers.
var samples = []struct {
	name string
	m    message
}{
	{"HTTPActionRequest", clientproto.HTTPActionRequest{Args: []byte{0x81, 1}}},
	{"HTTPActionResponse", clientproto.HTTPActionResponse{Output: []byte{1}}},
	{"HTTPActionResponse", clientproto.HTTPActionResponse{}},
	{"HTTPQueueSendRequest", clientproto.HTTPQueueSendRequest{Body: []byte{1}}},
	{"HTTPQueueSendRequest", clientproto.HTTPQueueSendRequest{Name: ptr("jobs"), Wait: ptr(true), Timeout: ptr(uint64(1) << 40)}},
	{"HTTPQueueSendResponse", clientproto.HTTPQueueSendResponse{Status: clientproto.StatusCompleted, Response: []byte{1}}},
	{"HTTPQueueSendResponse", clientproto.HTTPQueueSendResponse{Status: clientproto.StatusTimedOut}},
	{"HTTPResponseError", clientproto.HTTPResponseError{Group: "g", Code: "c", Message: "m", Metadata: []byte{1}}},
	{"HTTPResponseError", clientproto.HTTPResponseError{Group: "g", Code: "c"}},
	{"ToClient", clientproto.Init{ActorID: "a", ConnectionID: "c"}},
	{"ToClient", clientproto.Error{Group: "g", Code: "c", Message: "m", Metadata: []byte{0xf6}, ActionID: ptr(clientproto.ActionID(1<<64 - 1))}},
	{"ToClient", clientproto.Error{Group: "g", Code: "c", Message: "m"}},
	{"ToClient", clientproto.ActionResponse{ID: 300, Output: []byte{0x80}}},
	{"ToClient", clientproto.Event{Name: "e", Args: []byte{0x80}}},
	{"ToServer", clientproto.ActionRequest{ID: 300, Name: "a", Args: []byte{0x80}}},
	{"ToServer", clientproto.SubscriptionRequest{EventName: "e", Subscribe: true}},
	{"ToServer", clientproto.SubscriptionRequest{}},
}

// TestRoundTrip: every message is decoded as what was encoded, in every encoding and version.
func TestRoundTrip(t *testing.T) {
	for _, s := range samples {
		for _, e := range encodings {
			for v := version(2); v <= 4; v++ {
				if s.name == "HTTPQueueSendRequest" && v < 3 || s.name == "HTTPQueueSendResponse" && v < 3 {
					continue
				}
				b, err := s.m.Append(nil, e, v)
				if err != nil {
					t.Errorf("%+v in %v for %d: %v", s.m, e, v, err)
					continue
				}
				got, of, err := parsers[s.name](e, v, b)
				want := s.m
				if m, ok := want.(clientproto.HTTPActionResponse); ok && m.Output == nil && e == clientproto.JSON {
					want = clientproto.HTTPActionResponse{Output: []byte{0xf6}} // JSON has no undefined
				}
				if m, ok := want.(clientproto.HTTPQueueSendRequest); ok && m.Body == nil && e == clientproto.JSON {
					m.Body = []byte{0xf6}
					want = m
				}
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v in %v for %d is decoded as %+v, %v\n%x", want, e, v, got, err, b)
				}
				if e == clientproto.Bare && of != v || e != clientproto.Bare && !fromServer(s.name) && of != 0 {
					t.Errorf("%+v in %v for %d is of version %d", want, e, v, of)
				}
			}
		}
	}
}

// TestVersions: which version is written, for whom, and which is read.
func TestVersions(t *testing.T) {
	for _, s := range samples {
		_, init := s.m.(clientproto.Init)
		queue := s.name == "HTTPQueueSendRequest" || s.name == "HTTPQueueSendResponse"
		for v := version(0); v <= 5; v++ {
			b, err := s.m.Append([]byte{0xee}, clientproto.Bare, v)
			want, ok := v, v >= 1 && v <= 4
			switch {
			case s.name == "HTTPQueueSendRequest":
				ok = v == 3 || v == 4
			case s.name == "HTTPQueueSendResponse":
				want, ok = 3, v <= 4
			case init:
				want, ok = map[version]version{0: 2, 2: 2, 3: 3, 4: 3}[v], v != 1 && v <= 4
			case fromServer(s.name):
				want, ok = map[version]version{0: 2, 1: 1, 2: 2, 3: 3, 4: 3}[v], v <= 4
			}
			if !ok {
				if !errors.Is(err, clientproto.ErrVersion) || !bytes.Equal(b, []byte{0xee}) {
					t.Errorf("%+v for version %d: %x, %v", s.m, v, b, err)
				}
				continue
			}
			if err != nil || version(b[1]) != want || b[2] != 0 {
				t.Errorf("%+v for version %d: %x, %v; want version %d", s.m, v, b, err, want)
			}
		}
		// What a client of version 4 reads or writes, with another version on it.
		b, err := s.m.Append(nil, clientproto.Bare, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []version{0, 1, 2, 3, 4, 5, 256, 1<<16 - 1} {
			b[0], b[1] = byte(v), byte(v>>8)
			first, last := version(1), version(4)
			if queue {
				first = 3
			}
			if init {
				first = 2
			}
			if fromServer(s.name) {
				last = 3
			}
			_, _, err := parsers[s.name](clientproto.Bare, 4, b)
			if ok := first <= v && v <= last; ok && err != nil || !ok && !errors.Is(err, clientproto.ErrVersion) {
				t.Errorf("%+v of version %d: %v", s.m, v, err)
			}
		}
	}
	for client, ok := range map[version]bool{0: false, 2: false, 3: true, 4: true, 5: false} {
		_, err := clientproto.ParseHTTPActionResponse(clientproto.Bare, client, []byte{3, 0, 1, 1})
		if ok && err != nil || !ok && !errors.Is(err, clientproto.ErrVersion) {
			t.Errorf("a client of version %d reads version 3: %v", client, err)
		}
	}
}

// TestEscaped: a client of version 4 gets arrays that look marked with one more "$" in BARE, and
// nobody else does in BARE or CBOR; what is sent is undone.
func TestEscaped(t *testing.T) {
	plain, escaped := fromHex(t, "81 82 622478 01"), fromHex(t, "81 82 63242478 01")
	for _, e := range encodings {
		for v := version(2); v <= 4; v++ {
			for name, m := range map[string]message{
				"HTTPActionRequest":  clientproto.HTTPActionRequest{Args: plain},
				"HTTPActionResponse": clientproto.HTTPActionResponse{Output: plain},
				"HTTPResponseError":  clientproto.HTTPResponseError{Metadata: plain},
				"ToClient":           clientproto.Event{Args: plain},
				"ToServer":           clientproto.ActionRequest{Args: plain},
			} {
				b, err := m.Append(nil, e, v)
				if err != nil {
					t.Errorf("%s in %v for %d: %v", name, e, v, err)
					continue
				}
				want := e == clientproto.Bare && v == 4
				if got := bytes.Contains(b, escaped); got != want {
					t.Errorf("%s in %v for %d is escaped: %v, want %v", name, e, v, got, want)
				}
				got, _, err := parsers[name](e, v, b)
				if err != nil || !bytes.Equal(values(got)[0], plain) {
					t.Errorf("%s in %v for %d is decoded as %+v, %v", name, e, v, got, err)
				}
			}
		}
	}
}

// TestText: bytes of a text that no client could read are replaced in every encoding.
func TestText(t *testing.T) {
	for _, e := range encodings {
		b, err := clientproto.Event{Name: "a\xffb"}.Append(nil, e, 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := clientproto.ParseToClient(e, 3, b)
		if m, ok := got.(clientproto.Event); !ok || m.Name != "a\uFFFDb" {
			t.Errorf("in %v: %+v, %v", e, got, err)
		}
	}
}

// TestEncoding: the names that clients send.
func TestEncoding(t *testing.T) {
	for _, e := range encodings {
		if got, err := clientproto.ParseEncoding(e.String()); err != nil || got != e {
			t.Errorf("%v is read as %v, %v", e, got, err)
		}
	}
	for _, name := range []string{"", "JSON", "xml"} {
		if e, err := clientproto.ParseEncoding(name); !errors.Is(err, clientproto.ErrMalformed) {
			t.Errorf("%q is read as %v, %v", name, e, err)
		}
	}
}
