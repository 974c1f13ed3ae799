package cbor_test

import (
	"encoding/json"
	"math/big"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/internal/cbor"
)

// TestFromBase64: a text becomes bytes where the type has bytes, and nowhere else.
func TestFromBase64(t *testing.T) {
	type part struct {
		Data  []byte `json:"data,omitempty"`
		Plain string `json:"plain"`
	}
	type embedded struct{ Inner []byte }
	type whole struct {
		embedded
		Part  *part           `json:"p"`
		List  [][]byte        `cbor:"l" json:"other"`
		Map   map[string]part `json:"map"`
		Four  [4]byte
		ID    uuid.UUID
		At    time.Time
		Any   any
		Small []int8
	}
	for _, c := range []struct {
		in   string
		of   reflect.Type
		want string // what changes, "" for nothing
	}{
		{`"AAEC"`, reflect.TypeFor[[]byte](), `[0 1 2]`},
		{`"AAEC"`, reflect.TypeFor[*[]byte](), `[0 1 2]`},
		{`""`, reflect.TypeFor[[]byte](), `[]`},
		{`"AAE"`, reflect.TypeFor[[]byte](), ``},
		{`"AAEC"`, reflect.TypeFor[string](), ``},
		{`"AAEC"`, reflect.TypeFor[any](), ``},
		{`"AAEC"`, reflect.TypeFor[[]string](), ``},
		{`"AAEC"`, reflect.TypeFor[net.IP](), `[0 1 2]`},
		{`{"IP":"AAEC","Of":"AAEC"}`, reflect.TypeFor[struct {
			IP net.IP // it is text beside a number that can be nothing else
			N  big.Rat
			Of []byte
		}](), `Of`},
		{`5`, reflect.TypeFor[[]byte](), ``},
		{`{"p":{"data":"AAEC","plain":"AAEC"}}`, reflect.TypeFor[whole](), `p.data`},
		{`{"P":{"DATA":"AAEC"}}`, reflect.TypeFor[whole](), `P.DATA`},
		{`{"inner":"AAEC"}`, reflect.TypeFor[whole](), `inner`},
		{`{"l":["AAEC","?"]}`, reflect.TypeFor[whole](), `l`},
		{`{"map":{"k":{"data":"AAEC"}}}`, reflect.TypeFor[whole](), `map`},
		{`{"Four":"AAECAw=="}`, reflect.TypeFor[whole](), `Four`},
		{`{"ID":"AAECAwQFBgcICQoLDA0ODw==","At":"AAEC"}`, reflect.TypeFor[whole](), `ID`},
		{`{"At":"AAEC","Any":"AAEC","Small":"AAEC","none":"AAEC","other":["AAEC"]}`, reflect.TypeFor[whole](), ``},
	} {
		v, err := cbor.FromJSON([]byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		data, err := cbor.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, changed := cbor.FromBase64(data, c.of)
		if changed != (c.want != "") {
			t.Errorf("%s for a %v: changed %v", c.in, c.of, changed)
		}
		back, err := cbor.Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		// encoding/json writes bytes in base64: what was a text there is the same again.
		if text, err := json.Marshal(back); err != nil || string(text) != c.in {
			t.Errorf("%s for a %v is %s, %v", c.in, c.of, text, err)
		}
	}
	if data, changed := cbor.FromBase64([]byte{0xff}, reflect.TypeFor[[]byte]()); changed || len(data) != 1 {
		t.Errorf("damaged: %x, %v", data, changed)
	}
}
