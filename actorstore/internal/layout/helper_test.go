package layout_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
)

// testID is the id that the golden bytes are about.
var testID = layout.ID{
	UUID:  [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
	Label: 7,
}

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A vector is one golden encoding.
type vector struct {
	Name   string
	Schema string
	Input  json.RawMessage
	Hex    string
}

func vectors(t testing.TB, file string) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	must(t, err)
	var vs []vector
	must(t, json.Unmarshal(b, &vs))
	if len(vs) == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	return vs
}

// input decodes the vector's input into v.
func (v vector) input(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Input, into); err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// A hexBytes is {"$hex": "…"} in a vector.
type hexBytes struct {
	Hex string `json:"$hex"`
}
