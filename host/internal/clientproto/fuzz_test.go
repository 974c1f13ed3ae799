package clientproto_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

// Each target decodes any bytes as messages of one name, in every encoding. What is decoded is
// encoded, and that is decoded as the same.

func FuzzHTTPActionRequest(f *testing.F)     { fuzz(f, "HTTPActionRequest") }
func FuzzHTTPActionResponse(f *testing.F)    { fuzz(f, "HTTPActionResponse") }
func FuzzHTTPQueueSendRequest(f *testing.F)  { fuzz(f, "HTTPQueueSendRequest") }
func FuzzHTTPQueueSendResponse(f *testing.F) { fuzz(f, "HTTPQueueSendResponse") }
func FuzzHTTPResponseError(f *testing.F)     { fuzz(f, "HTTPResponseError") }
func FuzzToClient(f *testing.F)              { fuzz(f, "ToClient") }
func FuzzToServer(f *testing.F)              { fuzz(f, "ToServer") }

func fuzz(f *testing.F, name string) {
	for _, g := range goldens(f) {
		if g.name == name {
			f.Add(byte(g.as), byte(g.client()), g.wire)
		}
	}
	parse := parsers[name]
	f.Fuzz(func(t *testing.T, as, client byte, b []byte) {
		e, v := encodings[int(as)%len(encodings)], version(client%6)
		m, of, err := parse(e, v, b)
		if err != nil {
			if !errors.Is(err, clientproto.ErrMalformed) && !errors.Is(err, clientproto.ErrVersion) || len(err.Error()) > 1000 {
				t.Errorf("%x in %v: %v", b, e, err)
			}
			return
		}
		if fromServer(name) && e == clientproto.Bare {
			of = version(b[0]) // to have the same bytes again
			if v == 4 {
				of = 4
			}
		}
		once, err := m.Append(nil, e, of)
		if err != nil {
			t.Fatalf("%+v in %v isn't encoded: %v", m, e, err)
		}
		if e == clientproto.Bare && of < 4 && v < 4 && !bytes.Equal(once, b) {
			t.Errorf("%x is decoded as %+v, which is encoded as %x", b, m, once)
		}
		again, _, err := parse(e, v, once)
		if err != nil {
			t.Fatalf("%+v in %v is encoded as %x, which isn't decoded: %v", m, e, once, err)
		}
		if e != clientproto.JSON { // which has no undefined, Date, Map and Set
			if !reflect.DeepEqual(again, m) {
				t.Errorf("%+v in %v is decoded again as %+v", m, e, again)
			}
			return
		}
		if twice, err := again.Append(nil, e, of); err != nil || !bytes.Equal(twice, once) {
			t.Errorf("%q is encoded as %s, and then as %s, %v", b, once, twice, err)
		}
	})
}
