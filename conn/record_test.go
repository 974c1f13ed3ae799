package conn

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// recordOf returns the input of a vector as a Record.
func recordOf(t *testing.T, v testkit.Vector) Record {
	t.Helper()
	var in struct {
		ID                   ID
		Parameters, State    testkit.HexBytes
		Subscriptions        []struct{ EventName string }
		GatewayID, RequestID testkit.HexBytes
		ServerMessageIndex   Index
		ClientMessageIndex   Index
		RequestPath          string
		RequestHeaders       struct {
			Map [][2]string `json:"$map"`
		}
	}
	v.Decode(t, &in)
	r := Record{
		ID: in.ID, Parameters: in.Parameters, State: in.State,
		Gateway: GatewayID(in.GatewayID), Request: RequestID(in.RequestID),
		Server: in.ServerMessageIndex, Client: in.ClientMessageIndex, Path: in.RequestPath,
	}
	for _, s := range in.Subscriptions {
		r.Subscriptions = append(r.Subscriptions, s.EventName)
	}
	for _, h := range in.RequestHeaders.Map {
		r.Headers = append(r.Headers, Header{h[0], h[1]})
	}
	return r
}

// Both versions are read, and the later one is written; their bytes are otherwise equal.
func TestGoldenRecords(t *testing.T) {
	versions := map[uint16]int{}
	for _, v := range testkit.Vectors(t, "conn-persist.json") {
		want, stored := recordOf(t, v), v.Bytes(t)
		versions[v.Version]++
		got, err := ParseRecord(stored)
		must(t, err)
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: read %+v, want %+v", v.Name, *got, want)
		}
		stored[0] = recordVersion
		if b := want.Append(nil); !bytes.Equal(b, stored) || want.Size() != len(b) {
			t.Errorf("%s: wrote %x of size %d, want %x", v.Name, b, want.Size(), stored)
		}
		must(t, want.Validate())
	}
	if versions[3] == 0 || versions[4] == 0 {
		t.Errorf("vectors by version: %v, want some of 3 and of 4", versions)
	}
}

func TestGoldenKeys(t *testing.T) {
	for _, v := range testkit.Vectors(t, "keys.json") {
		var in struct{ ConnID ID }
		v.Decode(t, &in)
		if got, want := key(in.ConnID), v.Bytes(t); !bytes.Equal(got, want) {
			t.Errorf("%s: key %x, want %x", v.Name, got, want)
		}
		if got := readEntry(actorstore.Entry{Key: v.Bytes(t)}).ID; got != in.ConnID {
			t.Errorf("%s: read %q, want %q", v.Name, got, in.ConnID)
		}
	}
}

// randomRecord returns a record with something of everything.
func randomRecord(r *rand.Rand) Record {
	text := func() string { return strings.Repeat("é€", r.IntN(100)) }
	rec := Record{
		ID: newID(), Parameters: []byte{0xf6}, State: append([]byte{0x58, 0}, make([]byte, r.IntN(200))...),
		Server: Index(r.Uint32()), Client: Index(r.Uint32()), Path: "/" + text(),
	}
	rec.State[1] = byte(len(rec.State) - 2)
	for range r.IntN(200) {
		rec.Subscriptions = append(rec.Subscriptions, text())
	}
	for i := range r.IntN(5) {
		rec.Headers = append(rec.Headers, Header{text() + string(rune('a'+i)), text()})
	}
	for i := range rec.Gateway {
		rec.Gateway[i], rec.Request[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	return rec
}

func TestRecordRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		want := randomRecord(r)
		must(t, want.Validate())
		b := want.Append([]byte("x"))[1:]
		got, err := ParseRecord(b)
		must(t, err)
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("read %+v, want %+v", *got, want)
		}
		if want.Size() != len(b) {
			t.Fatalf("Size %d, want %d", want.Size(), len(b))
		}
		clear(b)
		if !reflect.DeepEqual(*got, want) {
			t.Fatal("what was read is a part of what it was read from")
		}
	}
}

func TestRecordCorrupt(t *testing.T) {
	rec := Record{ID: "c1", Parameters: undefined, State: undefined, Path: "/",
		Subscriptions: []string{"tick"}, Headers: []Header{{"a", "1"}, {"b", "2"}}}
	good := rec.Append(nil)
	for n := range good {
		if _, err := ParseRecord(good[:n]); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("the first %d bytes of %x: %v, want %v", n, good, err, actorstore.ErrCorrupt)
		}
	}
	for _, bad := range []struct {
		name string
		b    []byte
		err  error
	}{
		{"trailing", append(bytes.Clone(good), 0), actorstore.ErrCorrupt},
		{"version 2", append([]byte{2, 0}, good[2:]...), actorstore.ErrCorrupt},
		{"version 0", append([]byte{0, 0}, good[2:]...), actorstore.ErrCorrupt},
		{"version 5", append([]byte{5, 0}, good[2:]...), actorstore.ErrNewerFormat},
		{"version 1024", append([]byte{0, 4}, good[2:]...), actorstore.ErrNewerFormat},
		{"text", bytes.Replace(good, []byte("tick"), []byte("ti\xffk"), 1), actorstore.ErrCorrupt},
		{"headers", bytes.Replace(good, []byte("\x01b\x012"), []byte("\x01a\x012"), 1), actorstore.ErrCorrupt},
		{"count", bytes.Replace(good, []byte("\x01\x04tick"), []byte("\x7f\x04tick"), 1), actorstore.ErrCorrupt},
	} {
		if _, err := ParseRecord(bad.b); !errors.Is(err, bad.err) {
			t.Errorf("%s: %v, want %v", bad.name, err, bad.err)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Record{ID: "c", Parameters: undefined, State: undefined, Path: "/"}
	for name, bad := range map[string]struct {
		change func(*Record)
		err    error
	}{
		"id":         {func(r *Record) { r.ID = "\xff" }, ErrInfo},
		"path":       {func(r *Record) { r.Path = "/\xff" }, ErrInfo},
		"event":      {func(r *Record) { r.Subscriptions = []string{"\xff"} }, ErrInfo},
		"name":       {func(r *Record) { r.Headers = []Header{{"\xff", ""}} }, ErrInfo},
		"value":      {func(r *Record) { r.Headers = []Header{{"", "\xff"}} }, ErrInfo},
		"two names":  {func(r *Record) { r.Headers = []Header{{"a", "1"}, {"a", "1"}} }, ErrInfo},
		"parameters": {func(r *Record) { r.Parameters = nil }, ErrValue},
		"state":      {func(r *Record) { r.State = []byte{0xf6, 0xf6} }, ErrValue},
	} {
		must(t, good.Validate())
		r := good
		if bad.change(&r); !errors.Is(r.Validate(), bad.err) {
			t.Errorf("%s: %v, want %v", name, r.Validate(), bad.err)
		}
	}
}

// What can be read is written again as it was, but for the version, and nothing that is
// read needs more memory than its input explains.
func FuzzParseRecord(f *testing.F) {
	for _, v := range testkit.Vectors(f, "conn-persist.json") {
		f.Add(v.Bytes(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			if !errors.Is(err, actorstore.ErrCorrupt) && !errors.Is(err, actorstore.ErrNewerFormat) {
				t.Fatalf("%v is neither %v nor %v", err, actorstore.ErrCorrupt, actorstore.ErrNewerFormat)
			}
			return
		}
		again := r.Append(nil)
		if !bytes.Equal(again[bare.VersionSize:], b[bare.VersionSize:]) || r.Size() != len(again) {
			t.Fatalf("%x became %x, Size %d", b, again, r.Size())
		}
	})
}

func TestIDs(t *testing.T) {
	seen := map[ID]bool{}
	for range 100 {
		id := newID()
		if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[14] != '4' || id[18] != '-' ||
			!strings.ContainsRune("89ab", rune(id[19])) || id[23] != '-' || seen[id] {
			t.Fatalf("%q is no new UUID of version 4", id)
		}
		if _, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", "")); err != nil {
			t.Fatal(err)
		}
		seen[id] = true
	}
	if g, r := (GatewayID{1, 2, 10, 255}).String(), (RequestID{1, 2, 10, 255}).String(); g != "01020aff" || r != g {
		t.Errorf("%s, %s", g, r)
	}
}
