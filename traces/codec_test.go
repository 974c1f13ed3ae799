package traces

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// A vector is one golden value.
type vector struct {
	Name  string
	Input json.RawMessage
	Hex   string
}

func vectors(t testing.TB, file string) (vs []vector) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	must(t, err)
	must(t, json.Unmarshal(b, &vs))
	if len(vs) == 0 {
		t.Fatalf("%s has no vectors", file)
	}
	return vs
}

// u64 and blob are how the vectors write 64-bit integers and bytes in JSON.
type u64 uint64

func (v *u64) UnmarshalJSON(b []byte) error {
	var s struct {
		U64 string `json:"$u64"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	n, err := strconv.ParseUint(s.U64, 10, 64)
	*v = u64(n)
	return err
}

type blob []byte

func (v *blob) UnmarshalJSON(b []byte) error {
	var s struct {
		Hex string `json:"$hex"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	h, err := hex.DecodeString(s.Hex)
	*v = h
	return err
}

type jsonAttr struct {
	Key   uint32
	Value blob
}

type jsonStatus struct {
	Code    string
	Message *string
}

type jsonPlace struct {
	BucketStartSec       u64
	ChunkID, RecordIndex uint32
}

type jsonChunk struct {
	BaseUnixNs u64
	Strings    []string
	Records    []struct {
		TimeOffsetNs u64
		Body         struct {
			Tag string
			Val struct {
				TraceID, SpanID        blob
				ParentSpanID           *blob
				Name, Kind, Flags      uint32
				StartTimeUnixNs        u64
				TraceState             *string
				Attributes             []jsonAttr
				DroppedAttributesCount uint32
				Links                  []struct {
					TraceID, SpanID        blob
					TraceState             *string
					Attributes             []jsonAttr
					DroppedAttributesCount uint32
				}
				DroppedLinksCount uint32
				Status            *jsonStatus
			}
		}
	}
	ActiveSpans []struct {
		SpanID            blob
		StartKey          jsonPlace
		LatestSnapshotKey *jsonPlace
	}
}

func optionally[T, U any](p *T, of func(T) U) optional[U] {
	if p == nil {
		return optional[U]{}
	}
	return some(of(*p))
}

func same[T any](v T) T { return v }

func (p jsonPlace) place() place {
	return place{chunkKey{int64(p.BucketStartSec), p.ChunkID}, p.RecordIndex}
}

func rows(attrs []jsonAttr) (rows []attrRow) {
	for _, a := range attrs {
		rows = append(rows, attrRow{a.Key, a.Value})
	}
	return rows
}

func (j *jsonChunk) chunk() *chunk {
	c := &chunk{base: uint64(j.BaseUnixNs), strings: j.Strings, records: []record{}, active: []active{}}
	for _, r := range j.Records {
		v := r.Body.Val
		rec := record{
			offset: uint64(r.TimeOffsetNs), name: v.Name, spanKind: v.Kind, flags: v.Flags, start: uint64(v.StartTimeUnixNs),
			kind:   map[string]recordKind{"SpanStart": 0, "SpanEvent": 1, "SpanUpdate": 2, "SpanEnd": 3, "SpanSnapshot": 4}[r.Body.Tag],
			parent: optionally(v.ParentSpanID, func(b blob) SpanID { return SpanID(b) }),
			state:  optionally(v.TraceState, same), attrs: rows(v.Attributes), dropped: v.DroppedAttributesCount,
			droppedLinks: v.DroppedLinksCount,
			status: optionally(v.Status, func(s jsonStatus) statusRow {
				return statusRow{map[string]StatusCode{"UNSET": 0, "OK": 1, "ERROR": 2}[s.Code], optionally(s.Message, same)}
			}),
		}
		copy(rec.trace[:], v.TraceID)
		copy(rec.span[:], v.SpanID)
		for _, l := range v.Links {
			rec.links = append(rec.links, linkRow{
				TraceID(l.TraceID), SpanID(l.SpanID), optionally(l.TraceState, same), rows(l.Attributes), l.DroppedAttributesCount,
			})
		}
		c.records = append(c.records, rec)
	}
	for _, a := range j.ActiveSpans {
		c.active = append(c.active, active{SpanID(a.SpanID), a.StartKey.place(), optionally(a.LatestSnapshotKey, jsonPlace.place)})
	}
	return c
}

func TestChunkVectors(t *testing.T) {
	for _, v := range vectors(t, "traces-chunk.json") {
		var j jsonChunk
		must(t, json.Unmarshal(v.Input, &j))
		want := j.chunk()
		if got := hex.EncodeToString(want.append(bare.AppendVersion(nil, chunkVersion))); got != v.Hex {
			t.Errorf("%s: encoded\n%s, want\n%s", v.Name, got, v.Hex)
		}
		b, err := hex.DecodeString(v.Hex)
		must(t, err)
		got, err := parseChunk(b)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded\n%+v, want\n%+v", v.Name, got, want)
		}
		if got, err := parseChunk(append(b, 1, 2, 3)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: with bytes behind it: %v", v.Name, err)
		}
	}
}

func TestRangeVectors(t *testing.T) {
	for _, v := range vectors(t, "traces-readrange.json") {
		var j struct {
			StartTimeMs, EndTimeMs u64
			Limit                  uint32
			Clamped                bool
			BaseChunks, Chunks     []jsonChunk
		}
		must(t, json.Unmarshal(v.Input, &j))
		want := &wireRange{start: uint64(j.StartTimeMs), end: uint64(j.EndTimeMs), limit: j.Limit, clamped: j.Clamped}
		for i := range j.BaseChunks {
			want.base = append(want.base, j.BaseChunks[i].chunk())
		}
		for i := range j.Chunks {
			want.chunks = append(want.chunks, j.Chunks[i].chunk())
		}
		if got := hex.EncodeToString(want.append(nil)); got != v.Hex {
			t.Errorf("%s: encoded\n%s, want\n%s", v.Name, got, v.Hex)
		}
		b, err := hex.DecodeString(v.Hex)
		must(t, err)
		got, err := parseWireRange(b)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded\n%+v, want\n%+v", v.Name, got, want)
		}
		if _, err := parseWireRange(append(b, 1)); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("%s: a byte behind it: %v", v.Name, err)
		}
	}
}

func TestChunkCorrupt(t *testing.T) {
	vs := vectors(t, "traces-chunk.json")
	whole, err := hex.DecodeString(vs[len(vs)-1].Hex)
	must(t, err)
	for n := range whole {
		if _, err := parseChunk(whole[:n]); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := parseChunk([]byte{2, 0, 0}); !errors.Is(err, actorstore.ErrNewerFormat) {
		t.Errorf("version 2: %v", err)
	}
	for what, c := range map[string]*chunk{
		"a name that isn't there":     {strings: []string{"a"}, records: []record{{kind: kindEvent, name: 1}}},
		"a key that isn't there":      {records: []record{{kind: kindUpdate, attrs: []attrRow{{0, []byte{0}}}}}},
		"a time that overflows":       {base: 1 << 62, records: []record{{offset: 1 << 62, kind: kindEnd}}},
		"a start that overflows":      {strings: []string{"a"}, records: []record{{kind: kindSnapshot, start: 1 << 63}}},
		"a status that no status has": {records: []record{{kind: kindEnd, status: some(statusRow{code: 3})}}},
	} {
		if _, err := parseChunk(c.append([]byte{1, 0})); !errors.Is(err, actorstore.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzChunk: decoding never panics, and what could be decoded is what encoding gives.
func FuzzChunk(f *testing.F) {
	for _, v := range vectors(f, "traces-chunk.json") {
		b, err := hex.DecodeString(v.Hex)
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseChunk(b)
		if err != nil {
			if !errors.Is(err, actorstore.ErrCorrupt) && !errors.Is(err, actorstore.ErrNewerFormat) {
				t.Errorf("error %v", err)
			}
			return
		}
		if got := c.append(bare.AppendVersion(nil, chunkVersion)); !bytes.HasPrefix(b, got) {
			t.Errorf("%x was decoded, and is encoded as %x", b, got)
		}
		res := resources{}
		g := gathered{records: keyed{chunk: c}.timed(res.of)}
		g.span() // any values of attributes will do
	})
}

// parseWireRange reads what ReadWire returns.
func parseWireRange(b []byte) (w *wireRange, err error) {
	body, err := openVersion(b, wireVersion)
	if err != nil {
		return nil, err
	}
	r := bare.NewReader(body)
	w = &wireRange{start: r.U64(), end: r.U64(), limit: r.U32(), clamped: r.Bool()}
	for _, chunks := range []*[]*chunk{&w.base, &w.chunks} {
		for range r.Len(maxList) {
			c := readChunk(r)
			if r.Err() != nil {
				break
			}
			*chunks = append(*chunks, c)
		}
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, actorstore.ErrCorrupt)
	}
	return w, nil
}

func TestKeyVectors(t *testing.T) {
	for _, v := range vectors(t, "traces-keys.json") {
		var j struct{ Tuple []int64 }
		must(t, json.Unmarshal(v.Input, &j))
		b, err := hex.DecodeString(v.Hex)
		must(t, err)
		if len(j.Tuple) == 1 {
			start, end := chunksRange(layout)
			if !bytes.Equal(start, b) || bytes.Compare(start, end) >= 0 {
				t.Errorf("%s: the range of all chunks is %x to %x", v.Name, start, end)
			}
			continue
		}
		want := chunkKey{j.Tuple[1], uint32(j.Tuple[2])}
		k, ok := parseChunkKey(layout, b)
		if j.Tuple[2] > math.MaxUint32 { // what is above all chunks isn't a chunk
			if ok {
				t.Errorf("%s: is the key of %v", v.Name, k)
			}
			continue
		}
		if got := appendChunkKey(layout, nil, want); !bytes.Equal(got, b) || !ok || k != want {
			t.Errorf("%s: %x, and %v, %v of %x", v.Name, got, k, ok, b)
		}
	}
}

// TestKeyOrder: keys sort as what they stand for, and the ranges of buckets have their
// chunks and no others.
func TestKeyOrder(t *testing.T) {
	var last []byte
	for _, bucket := range []int64{0, 3600, 1 << 24, 1_700_006_400, 1_700_010_000, 1 << 33} {
		for _, id := range []uint32{0, 1, 255, 256, 1 << 24, math.MaxUint32} {
			key := appendChunkKey(layout, nil, chunkKey{bucket, id})
			if bytes.Compare(last, key) >= 0 || bytes.Compare(key, afterChunk(layout, chunkKey{bucket, id})) >= 0 {
				t.Errorf("%x doesn't come behind %x", key, last)
			}
			if bytes.Compare(key, bucketStart(layout, bucket)) < 0 || bytes.Compare(key, bucketStart(layout, bucket+1)) >= 0 {
				t.Errorf("%x is not in its bucket", key)
			}
			last = key
		}
	}
	for _, key := range []string{"", "08", "081501", "08150114", "0815021414", "081501141400", "08150114160001", "0515011414"} {
		b, err := hex.DecodeString(key)
		must(t, err)
		if k, ok := parseChunkKey(layout, b); ok {
			t.Errorf("%s is the key of %v", key, k)
		}
	}
}
