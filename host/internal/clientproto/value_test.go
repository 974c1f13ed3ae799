package clientproto_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

// TestValue: values in JSON and CBOR, which are each other's.
func TestValue(t *testing.T) {
	for _, tt := range []struct{ json, cbor string }{
		{`null`, "f6"},
		{`true`, "f5"},
		{`false`, "f4"},
		{`0`, "00"},
		{`-1`, "20"},
		{`4294967295`, "1affffffff"},
		{`-4294967296`, "3affffffff"},
		{`4294967296`, "fb41f0000000000000"},
		{`1099511627776`, "fb4270000000000000"},
		{`9007199254740992`, "fb4340000000000000"},
		{`-9007199254740992`, "fbc340000000000000"},
		{`100000000000000000000`, "fb4415af1d78b58c40"},
		{`1e+21`, "fb444b1ae4d6e2ef50"},
		{`0.1`, "fb3fb999999999999a"},
		{`0.000001`, "fb3eb0c6f7a0b5ed8d"},
		{`1.5e-7`, "fb3e8421f5f40d8376"},
		{`""`, "60"},
		{`"hällo"`, "6668c3a46c6c6f"},
		{`"\"\\/<>&\b\t\n\f\r\u0000\u000b\u001f` + "\x7f\u2028\u2029" + `"`, "75 225c2f3c3e26 08090a0c0d 000b1f 7f e280a8e280a9"},
		{`[]`, "80"},
		{`[1,[2]]`, "82018102"},
		{`{}`, "b90000"},
		{`{"b":1,"a":{"":null}}`, "b90002 6162 01 6161 b90001 60 f6"},
		{`["$BigInt","7"]`, "1b0000000000000007"},
		{`["$BigInt","-1"]`, "3b0000000000000000"},
		{`["$BigInt","18446744073709551615"]`, "1bffffffffffffffff"},
		{`["$BigInt","18446744073709551616"]`, "c249010000000000000000"},
		{`["$BigInt","-18446744073709551617"]`, "c349010000000000000000"},
		{`["$Uint8Array",""]`, "d84040"},
		{`["$Uint8Array","CQg="]`, "d840420908"},
		{`["$$x",1]`, "82622478 01"},
		{`["$$$x",1]`, "8263242478 01"},
		{`["$$",{"a":["$$BigInt",2]}]`, "826124 b90001 6161 82 67 24426967496e74 02"},
		{`["$x"]`, "81622478"},
		{`["$x",1,2]`, "836224780102"},
		{`[1,"$x"]`, "8201622478"},
		{`["x$",1]`, "8262782401"},
		{`{"$BigInt":"7"}`, "b90001 67 24426967496e74 6137"},
	} {
		value := fromHex(t, tt.cbor)
		got, err := clientproto.AppendJSON([]byte("before"), value)
		if err != nil || string(got) != "before"+tt.json {
			t.Errorf("%s in JSON is %s, %v; want %s", tt.cbor, got, err, tt.json)
		}
		if got, err := clientproto.FromJSON([]byte(tt.json)); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%s in CBOR is %x, %v; want %s", tt.json, got, err, tt.cbor)
		}
	}
}

// TestToJSON: values that JSON has nothing for.
func TestToJSON(t *testing.T) {
	for cbor, want := range map[string]string{
		"":                      `null`,
		"f7":                    `null`,
		"82f701":                `[null,1]`,
		"b90002 6161f7 616201":  `{"b":1}`,
		"f97e00":                `null`,
		"f97c00":                `null`,
		"f98000":                `0`,
		"f93c00":                `1`,
		"a1 6161 01":            `{"a":1}`,
		"42 0908":               `["$Uint8Array","CQg="]`,
		"d8544101":              `["$Uint8Array","AQ=="]`,
		"d90102 82 0102":        `[1,2]`,
		"d90102 82 622478 01":   `["$$x",1]`,
		"d90103 a1 0102":        `[[1,2]]`,
		"d90103 a1 622478 01":   `[["$$x",1]]`,
		"a1 01 02":              `[[1,2]]`,
		"c1 fb41d9fffffffae148": `"2025-06-05T00:00:00.000Z"`,
		"61ff":                  "\"\uFFFD\"",
	} {
		if strings.HasPrefix(cbor, "c1") {
			cbor, want = "c1 1a 499602d2", `"2009-02-13T23:31:30.000Z"`
		}
		if got, err := clientproto.AppendJSON(nil, fromHex(t, cbor)); err != nil || string(got) != want {
			t.Errorf("%s in JSON is %s, %v; want %s", cbor, got, err, want)
		}
	}
	for _, cbor := range []string{"ff", "81", "0000", "f8", strings.Repeat("81", 200) + "00"} {
		if got, err := clientproto.AppendJSON([]byte("before"), fromHex(t, cbor)); !errors.Is(err, clientproto.ErrMalformed) || string(got) != "before" {
			t.Errorf("%.8s in JSON is %s, %v", cbor, got, err)
		}
	}
}

// TestOfJSON: JSON in other forms than it is written, and what is no value.
func TestOfJSON(t *testing.T) {
	for json, want := range map[string]string{
		` [ 1 , 2 ] `:                        "820102",
		`1e2`:                                "1864",
		`-0`:                                 "00",
		`9007199254740993`:                   "fb4340000000000000",
		`18446744073709551615`:               "fb43f0000000000000",
		`["$Undefined",0]`:                   "f7",
		`[["$Undefined",0]]`:                 "81f7",
		`{"a":["$Undefined",0]}`:             "b90001 6161 f7",
		`["$ArrayBuffer","AQID"]`:            "43010203",
		`["$Set",[1,["$BigInt","2"]]]`:       "d90102 82 01 1b0000000000000002",
		`["$Set",[]]`:                        "d90102 80",
		`["$Set",["$$a","b"]]`:               "d90102 82 622461 6162",
		`["$$x",["$BigInt","7"]]`:            "82622478 1b0000000000000007",
		`["\u0024BigInt","007"]`:             "1b0000000000000007",
		`{"a":1,"a":2}`:                      "b90001 6161 02",
		`"\ud800"`:                           "63efbfbd",
		`["$BigInt","` + digits(2466) + `"]`: "",
	} {
		got, err := clientproto.FromJSON([]byte(json))
		if err != nil || want != "" && !bytes.Equal(got, fromHex(t, want)) {
			t.Errorf("%.40s in CBOR is %x, %v; want %s", json, got, err, want)
		}
	}
	for _, json := range []string{
		``, ` `, `nul`, `[1,]`, `{"a"}`, `1 2`, `"`, "\"\x01\"", `1e999`, `[1`, `{"a":1`,
		`["$Map",[]]`, `["$",1]`, `["$x",1]`, `[["$x",1]]`, `{"a":["$x",1]}`, `["$Undefined",1]`, `["$Undefined",null]`,
		`["$BigInt",7]`, `["$BigInt",""]`, `["$BigInt","-"]`, `["$BigInt","+7"]`, `["$BigInt","0x7"]`, `["$BigInt","1_0"]`,
		`["$BigInt","` + digits(2468) + `"]`, `["$BigInt","` + strings.Repeat("9", 2467) + `"]`,
		`["$Uint8Array","A"]`, `["$Uint8Array","_-=="]`, `["$Uint8Array",1]`, `["$ArrayBuffer",[1]]`,
		`["$Set",1]`, `["$Set",["$BigInt","7"]]`, `["$Set",{}]`,
		strings.Repeat("[", 129) + strings.Repeat("]", 129),
	} {
		got, err := clientproto.FromJSON([]byte(json))
		if !errors.Is(err, clientproto.ErrMalformed) || got != nil {
			t.Errorf("%.40s in CBOR is %.20x, %v", json, got, err)
		} else if len(err.Error()) > 300 || strings.Count(err.Error(), "malformed") > 1 {
			t.Errorf("%.40s: the error is %v", json, err)
		}
	}
}

func digits(n int) string { return "1" + strings.Repeat("0", n-1) }

// TestEscape: what a client of version 4 does to values, and what is done for it.
func TestEscape(t *testing.T) {
	const big, bytes3 = "82 67 24426967496e74 6137", "82 6b 2455696e74384172726179 64 41514944"
	for _, tt := range []struct{ wire, value, again string }{
		{"01", "01", "01"},
		{"82 63242478 01", "82 622478 01", "82 63242478 01"},
		{"81 82 63242478 01", "81 82 622478 01", "81 82 63242478 01"},
		{"b90001 622478 82 63242478 01", "b90001 622478 82 622478 01", "b90001 622478 82 63242478 01"},
		{"83 622478 01 02", "83 622478 01 02", "83 622478 01 02"},
		{"622478", "622478", "622478"},
		{"82 6a 24556e646566696e6564 00", "f7", "f7"},
		{"81" + big, "81 1b0000000000000007", "81 1b0000000000000007"},
		{"81" + bytes3, "81 d84043010203", "81 d84043010203"},
		{"82 64 24536574 82 01 " + big, "d90102 82 01 1b0000000000000007", "d90102 82 01 1b0000000000000007"},
		{"82 6c 2441727261794275666665 72 64 41514944", "43010203", "43010203"},
		{"82 63242478 fbfff0000000000001", "", ""},
	} {
		value, err := clientproto.Unescape(fromHex(t, tt.wire))
		if tt.value == "" {
			if !errors.Is(err, clientproto.ErrMalformed) {
				t.Errorf("%s is %x, %v", tt.wire, value, err)
			}
			continue
		}
		if err != nil || !bytes.Equal(value, fromHex(t, tt.value)) {
			t.Errorf("%s is %x, %v; want %s", tt.wire, value, err, tt.value)
		}
		if again, err := clientproto.Escape(value); err != nil || !bytes.Equal(again, fromHex(t, tt.again)) {
			t.Errorf("%s is %x for a client, %v; want %s", tt.value, again, err, tt.again)
		}
	}
	for _, wire := range []string{"", "82 622478 01", "81 82 622478 01", "82 64 24536574 01", "82 64 24", "8161 24 24"} {
		if value, err := clientproto.Unescape(fromHex(t, wire)); !errors.Is(err, clientproto.ErrMalformed) {
			t.Errorf("%s is %x, %v", wire, value, err)
		}
	}
	for _, value := range []string{"", "81", "82 64 24"} {
		if wire, err := clientproto.Escape(fromHex(t, value)); !errors.Is(err, clientproto.ErrMalformed) {
			t.Errorf("%s is %x for a client, %v", value, wire, err)
		}
	}
}

// FuzzFromJSON: what is read of any text is written in a form that is read as the same.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,null,"\u2028"]}`, `["$BigInt","7"]`, `[["$$x",1],["$Set",[["$Undefined",0]]]]`, `["$Uint8Array","AQID"]`, `1e300`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		value, err := clientproto.FromJSON(text)
		if err != nil {
			if !errors.Is(err, clientproto.ErrMalformed) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		once, err := clientproto.AppendJSON(nil, value)
		if err != nil {
			t.Fatalf("%q is %x, which isn't written: %v", text, value, err)
		}
		value, err = clientproto.FromJSON(once)
		if err != nil {
			t.Fatalf("%q is written %s, which isn't read: %v", text, once, err)
		}
		if twice, err := clientproto.AppendJSON(nil, value); err != nil || !bytes.Equal(twice, once) {
			t.Errorf("%q is written %s, and then %s, %v", text, once, twice, err)
		}
	})
}

// FuzzEscape: what is escaped for a client is what it was when it is undone, and any CBOR has
// JSON.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"8262247801", "b9000161248263242478f7", "d90102826224780102", "c11a499602d2", "82614281f97e00", "9fff", "bf612401ff"} {
		f.Add(fromHex(f, s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		escaped, err := clientproto.Escape(value)
		if err != nil {
			if !errors.Is(err, clientproto.ErrMalformed) {
				t.Errorf("%x: %v", value, err)
			}
			return
		}
		again, err := clientproto.Unescape(escaped)
		if err != nil {
			t.Fatalf("%x is escaped to %x, which isn't undone: %v", value, escaped, err)
		}
		if got, want := show(t, again), show(t, value); got != want {
			t.Errorf("%s is escaped to %x, which is %s", want, escaped, got)
		}
	})
}

// show returns a value in JSON, or why it has none.
func show(t *testing.T, value []byte) string {
	text, err := clientproto.AppendJSON(nil, value)
	if err != nil {
		if !errors.Is(err, clientproto.ErrMalformed) {
			t.Errorf("%x: %v", value, err)
		}
		return fmt.Sprint(err)
	}
	return string(text)
}
