package clientproto_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

// Short names for what every test is about.
type (
	encoding = clientproto.Encoding
	version  = clientproto.Version
)

var encodings = []encoding{clientproto.Bare, clientproto.CBOR, clientproto.JSON}

// A message is any body or message of a socket.
type message interface {
	Append(dst []byte, e encoding, v version) ([]byte, error)
}

// A parser decodes the messages of one name. v is the version of the client; a message of a
// client says it itself.
type parser func(e encoding, v version, b []byte) (message, version, error)

// parsers has all of them, by the name of what they decode.
var parsers = map[string]parser{
	"HTTPActionRequest":     ofClient(clientproto.ParseHTTPActionRequest),
	"HTTPQueueSendRequest":  ofClient(clientproto.ParseHTTPQueueSendRequest),
	"ToServer":              ofClient(clientproto.ParseToServer),
	"HTTPActionResponse":    ofServer(clientproto.ParseHTTPActionResponse),
	"HTTPQueueSendResponse": ofServer(clientproto.ParseHTTPQueueSendResponse),
	"HTTPResponseError":     ofServer(clientproto.ParseHTTPResponseError),
	"ToClient":              ofServer(clientproto.ParseToClient),
}

func ofClient[M message](parse func(encoding, []byte) (M, version, error)) parser {
	return func(e encoding, _ version, b []byte) (message, version, error) { return parse(e, b) }
}

func ofServer[M message](parse func(encoding, version, []byte) (M, error)) parser {
	return func(e encoding, v version, b []byte) (message, version, error) {
		m, err := parse(e, v, b)
		return m, v, err
	}
}

// fromServer says whether messages of a name are sent by servers.
func fromServer(name string) bool {
	return name == "ToClient" || strings.HasSuffix(name, "Response") || strings.HasSuffix(name, "Error")
}

// versions are those of the protocol that clients speak, by their own.
var versions = map[string]version{"2.0.33": 2, "2.1.5": 3, "2.2.1": 3, "2.3.19": 4}

// A golden is a message that was on the wire.
type golden struct {
	name    string
	as      encoding
	clients []string
	wire    []byte
	says    string // in JSON
}

// client returns the version of the client. Messages that clients of several versions share are
// in an encoding without versions.
func (g golden) client() version { return versions[g.clients[0]] }

// goldens returns those of the files in testdata.
func goldens(t testing.TB) (all []golden) {
	for _, e := range encodings {
		file, err := os.ReadFile("testdata/" + e.String() + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(file)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			g := golden{f[2], e, strings.Split(f[0], ","), []byte(f[3]), f[len(f)-1]}
			if e != clientproto.JSON {
				if g.wire, err = hex.DecodeString(f[3]); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, g)
		}
	}
	return all
}

// values returns the values in a message.
func values(m message) [][]byte {
	switch m := m.(type) {
	case clientproto.HTTPActionRequest:
		return [][]byte{m.Args}
	case clientproto.HTTPActionResponse:
		return [][]byte{m.Output}
	case clientproto.HTTPQueueSendRequest:
		return [][]byte{m.Body}
	case clientproto.HTTPQueueSendResponse:
		return [][]byte{m.Response}
	case clientproto.HTTPResponseError:
		return [][]byte{m.Metadata}
	case clientproto.Error:
		return [][]byte{m.Metadata}
	case clientproto.ActionResponse:
		return [][]byte{m.Output}
	case clientproto.Event:
		return [][]byte{m.Args}
	case clientproto.ActionRequest:
		return [][]byte{m.Args}
	}
	return nil
}

// partOf says whether v is a part of the memory of b.
func partOf(b, v []byte) bool {
	if len(v) == 0 {
		return true
	}
	old := v[0]
	defer func() { v[0] = old }()
	before := slices.Clone(b)
	v[0]++
	return !bytes.Equal(before, b)
}

func fromHex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
