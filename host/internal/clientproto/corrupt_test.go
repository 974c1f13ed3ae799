package clientproto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

// TestMalformed: what isn't a message, and what the error says of it.
func TestMalformed(t *testing.T) {
	for _, tt := range []struct {
		name, as, wire, says string
	}{
		{"ToServer", "bare", "0300", "ToServer: at byte 2: 1 bytes wanted, 0 left"},
		{"ToServer", "bare", "0300 02", "ToServer: at byte 2: invalid tag 2 of 2"},
		{"ToServer", "bare", "0300 80 00", "ToServer: at byte 2: invalid tag 128 of 2"},
		{"ToServer", "bare", "0300 01 01 61 02", "ToServer: at byte 5: bool is 2"},
		{"ToServer", "bare", "0300 01 01 ff 01", "ToServer: at byte 3: str is not valid UTF-8"},
		{"ToServer", "bare", "0300 00 8000 00 0180", "ToServer: at byte 3: uint is not in its shortest form"},
		{"ToServer", "bare", "0300 00 00 00 01 01", "ToServer.args: it is no array"},
		{"ToServer", "bare", "0300 00 00 00 00", "ToServer.args: EOF"},
		{"ToServer", "bare", "0300 00 00 00 02 8000", "ToServer.args: 1 bytes of extraneous data starting at index 1"},
		{"ToServer", "bare", "0400 00 00 00 05 82 622478 01", "ToServer.args: an array with the mark"},
		{"ToServer", "bare", "0300 00 00 00 ffffffff0f", "ToServer: at byte "},
		{"ToClient", "bare", "0300 04", "ToClient: at byte 2: invalid tag 4 of 4"},
		{"HTTPActionRequest", "bare", "0300 03 8261 61", "HTTPActionRequest.args: unexpected EOF"},
		{"HTTPActionRequest", "bare", "0300 01 80 00", "HTTPActionRequest: at byte 4: 1 bytes remain"},
		{"HTTPQueueSendRequest", "bare", "0300 01 01 02", "HTTPQueueSendRequest: at byte 4: bool is 2"},

		{"ToServer", "json", `{}`, `ToServer: the tag "" is none of ["ActionRequest" "SubscriptionRequest"]`},
		{"ToServer", "json", `[]`, "ToServer: "},
		{"ToServer", "json", `{"body":{"tag":"Init","val":{}}}`, `ToServer: the tag "Init" is none of`},
		{"ToServer", "json", `{"body":{"tag":"` + strings.Repeat("x", 1000) + `"}}`, `ToServer: the tag "` + strings.Repeat("x", 32) + `" is none of`},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest"}}`, "ActionRequest.id: it is no bigint"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":null}}`, "ActionRequest.id: it is no bigint"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":7,"name":"a","args":[]}}}`, "ActionRequest.id: it is no bigint"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":["$BigInt","-1"],"name":"a","args":[]}}}`, "ActionRequest.id: it is no bigint"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":["$BigInt","18446744073709551616"],"name":"a","args":[]}}}`, "ActionRequest.id: it is no bigint"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":["$BigInt","7"],"name":1,"args":[]}}}`, "ActionRequest.name: it is no text"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":["$BigInt","7"],"name":"a"}}}`, "ActionRequest.args: it is no array"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":["$BigInt","7"],"name":"a","args":{}}}}`, "ActionRequest.args: it is no array"},
		{"ToServer", "json", `{"body":{"tag":"ActionRequest","val":{"id":["$BigInt","7"],"name":"a","args":["$BigInt","7"]}}}`, "ActionRequest.args: it is no array"},
		{"ToServer", "json", `{"body":{"tag":"SubscriptionRequest","val":{"eventName":"e","subscribe":1}}}`, "SubscriptionRequest.subscribe: it is no bool"},
		{"ToServer", "json", `{"body":{"tag":"SubscriptionRequest","val":{"subscribe":true}}}`, "SubscriptionRequest.eventName: it is no text"},
		{"HTTPActionRequest", "json", `{}`, "HTTPActionRequest.args: it is no array"},
		{"HTTPActionRequest", "json", `null`, "HTTPActionRequest.args: it is no array"},
		{"HTTPActionRequest", "json", ``, "HTTPActionRequest: EOF"},
		{"HTTPActionRequest", "json", `{"args":[["$x",1]]}`, `HTTPActionRequest: an array with the mark "$x"`},
		{"HTTPActionRequest", "json", `{"args":` + strings.Repeat("[", 200), "HTTPActionRequest: too deep"},
		{"HTTPQueueSendRequest", "json", `{"body":1,"timeout":1.5}`, "HTTPQueueSendRequest.timeout: "},
		{"HTTPQueueSendRequest", "json", `{"body":1,"timeout":-1}`, "HTTPQueueSendRequest.timeout: "},
		{"HTTPQueueSendRequest", "json", `{"body":1,"timeout":"1"}`, "HTTPQueueSendRequest.timeout: "},
		{"HTTPQueueSendRequest", "json", `{"body":1,"wait":"yes"}`, "HTTPQueueSendRequest.wait: it is no bool"},
		{"HTTPQueueSendRequest", "json", `{"body":1,"name":1}`, "HTTPQueueSendRequest.name: it is no text"},
		{"HTTPQueueSendResponse", "json", `{"status":null}`, "HTTPQueueSendResponse.status: it is no text"},
		{"HTTPResponseError", "json", `{"group":"g","code":"c"}`, "HTTPResponseError.message: it is no text"},

		{"HTTPActionRequest", "cbor", "a1 64 61726773 f7", "HTTPActionRequest.args: it is no array"},
		{"HTTPActionRequest", "cbor", "a2 64 61726773 80 64 61726773 80", "HTTPActionRequest: "},
		{"HTTPActionRequest", "cbor", "a1 01 80", "HTTPActionRequest: "},
		{"HTTPActionRequest", "cbor", "80", "HTTPActionRequest: "},
		{"HTTPActionRequest", "cbor", "a1 64 61726773 9b ffffffffffffffff", "HTTPActionRequest: "},
		{"HTTPActionRequest", "cbor", "a1 64 61726773" + strings.Repeat("81", 200) + "00", "HTTPActionRequest: "},
		{"HTTPQueueSendResponse", "cbor", "a1 66 737461747573 61ff", "HTTPQueueSendResponse.status: "},
	} {
		e, err := clientproto.ParseEncoding(tt.as)
		if err != nil {
			t.Fatal(err)
		}
		wire := []byte(tt.wire)
		if e != clientproto.JSON {
			wire = fromHex(t, tt.wire)
		}
		m, _, err := parsers[tt.name](e, 4, wire)
		if !errors.Is(err, clientproto.ErrMalformed) || m != nil && !reflect.ValueOf(m).IsZero() {
			t.Errorf("%s of %.60s in %v: %+v, %v", tt.name, tt.wire, e, m, err)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "clientproto: malformed "+tt.says) || len(got) > 300 {
			t.Errorf("%s of %.60s in %v:\n%s, want\nclientproto: malformed %s", tt.name, tt.wire, e, got, tt.says)
		}
	}
}

// TestLenient: what published clients don't send, and is read all the same.
func TestLenient(t *testing.T) {
	for _, tt := range []struct{ name, json, want string }{
		{"HTTPActionRequest", ` {"more":[1], "args":[1]} `, `{"args":[1]}`},
		{"HTTPActionResponse", `{}`, `{"output":null}`},
		{"HTTPQueueSendRequest", `{"body":1,"name":null,"wait":null,"timeout":null}`, `{"body":1}`},
		{"HTTPQueueSendRequest", `{}`, `{"body":null}`},
		{"HTTPQueueSendRequest", `{"timeout":1e3}`, `{"body":null,"timeout":1000}`},
		{"HTTPResponseError", `{"message":"m","code":"c","group":"g","metadata":null}`, `{"group":"g","code":"c","message":"m","metadata":null}`},
		{"ToClient", `{"body":{"val":{"group":"g","code":"c","message":"m"},"tag":"Error"}}`, `{"body":{"tag":"Error","val":{"group":"g","code":"c","message":"m","actionId":null}}}`},
	} {
		m, _, err := parsers[tt.name](clientproto.JSON, 0, []byte(tt.json))
		if err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		if got, err := m.Append(nil, clientproto.JSON, 0); err != nil || string(got) != tt.want {
			t.Errorf("%s is written %s, %v; want %s", tt.json, got, err, tt.want)
		}
	}
}

// TestBadValue: what isn't CBOR, or no array, isn't encoded where it is looked into.
func TestBadValue(t *testing.T) {
	for _, tt := range []struct {
		m message
		e encoding
		v version
	}{
		{clientproto.Event{Args: []byte{1}}, clientproto.Bare, 3},
		{clientproto.Event{Args: []byte{0x81}}, clientproto.Bare, 4},
		{clientproto.Event{Args: []byte{0x81}}, clientproto.JSON, 0},
		{clientproto.HTTPActionRequest{Args: []byte{0xa0}}, clientproto.CBOR, 0},
		{clientproto.HTTPActionResponse{Output: []byte{0xf7, 0}}, clientproto.JSON, 0},
		{clientproto.HTTPResponseError{Metadata: []byte{0xff}}, clientproto.JSON, 0},
	} {
		b, err := tt.m.Append([]byte("before"), tt.e, tt.v)
		if !errors.Is(err, clientproto.ErrMalformed) || string(b) != "before" {
			t.Errorf("%+v in %v: %q, %v", tt.m, tt.e, b, err)
		}
	}
}

// TestTooLong: a message over the limit is refused before it is read.
func TestTooLong(t *testing.T) {
	b := bytes.Repeat([]byte{' '}, 32<<20+1)
	for _, e := range encodings {
		for name, parse := range parsers {
			if _, _, err := parse(e, 4, b); !errors.Is(err, clientproto.ErrMalformed) || !strings.Contains(err.Error(), "limit 33554432") {
				t.Errorf("%s in %v: %v", name, e, err)
			}
		}
	}
}

// TestMemory: what decoding allocates is bounded by the length of the message, whatever that
// claims.
func TestMemory(t *testing.T) {
	const size = 1 << 16
	args := func(v []byte) []byte { return append(fromHex(t, "b90001 64 61726773"), v...) }
	data := func(v []byte) []byte { return append(binary.AppendUvarint([]byte{4, 0}, uint64(len(v))), v...) }
	list := func(head byte, item string) []byte {
		n := size / len(item)
		return append(binary.BigEndian.AppendUint32([]byte{head}, uint32(n)), strings.Repeat(item, n)...)
	}
	marked := "\x82\x63$$x\x01"
	for what, m := range map[string]struct {
		as   encoding
		wire []byte
	}{
		"a length":            {clientproto.Bare, fromHex(t, "0400 ffffffffffffffff7f")},
		"a count":             {clientproto.CBOR, args(fromHex(t, "9b 00ffffffffffffff"))},
		"a count of members":  {clientproto.CBOR, fromHex(t, "bb 00ffffffffffffff 60 00")},
		"a text":              {clientproto.CBOR, args(fromHex(t, "81 7b 00ffffffffffffff"))},
		"small items":         {clientproto.CBOR, args(list(0x9a, "\x00"))},
		"small lists":         {clientproto.CBOR, args(list(0x9a, "\x80"))},
		"small lists, undone": {clientproto.Bare, data(append([]byte("\x82"+marked), list(0x9a, "\x80")...))},
		"marks, undone":       {clientproto.Bare, data(list(0x9a, marked))},
		"marks, JSON":         {clientproto.JSON, []byte(`{"args":[` + strings.Repeat(`["$$x",1],`, size/10) + `1]}`)},
		"lists, JSON":         {clientproto.JSON, []byte(`{"args":[` + strings.Repeat(`[],`, size/3) + `1]}`)},
		"objects, JSON":       {clientproto.JSON, []byte(`{"args":[` + strings.Repeat(`{},`, size/3) + `1]}`)},
		"depth, JSON":         {clientproto.JSON, []byte(`{"args":` + strings.Repeat(`[[],`, 100) + `1` + strings.Repeat(`]`, 100) + `}`)},
		"endless depth, JSON": {clientproto.JSON, []byte(`{"args":` + strings.Repeat(`[`, size))},
	} {
		const factor, base = 256, 1 << 16
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = parsers["HTTPActionRequest"](m.as, 4, m.wire) // an error, or not
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(factor*len(m.wire)+base); got > limit {
			t.Errorf("%s: %d bytes for a message of %d, limit %d", what, got, len(m.wire), limit)
		} else {
			t.Logf("%s: %d bytes for a message of %d", what, got, len(m.wire))
		}
	}
}
