package keys_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/keys"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/tuple"
)

// TestKeyGolden: the bytes of keys, which will not change.
func TestKeyGolden(t *testing.T) {
	uuid := tuple.UUID{0xa1, 0xa2, 0xa3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xb0}
	for name, c := range map[string]struct {
		got  func() ([]byte, error)
		want string
	}{
		"workflow id": {func() ([]byte, error) { return keys.Append(nil, workflowKey{uuid, 0x0102}) },
			"1520" + "1504" + "4001a1a2a30405060708090a0b0c0d0e0fb0" + "0102" + "1514"},
		"wake time": {func() ([]byte, error) { return keys.Append(nil, wakeKey{under{"a\x00b"}}) },
			"1520" + "1504" + "026100ff6200" + "1515"},
		"image":  {func() ([]byte, error) { return keys.Append(nil, under{"u"}.image(-5551212)) }, "1520" + "1504" + "027500" + "1517" + "11ab4b93"},
		"under":  {func() ([]byte, error) { return keys.Append(nil, under{"u"}) }, "1520" + "1504" + "027500"},
		"behind": {func() ([]byte, error) { return keys.Append([]byte{0xee}, under{""}) }, "ee" + "1520" + "1504" + "0200"},
		"log": {func() ([]byte, error) {
			return keys.Append(nil, logKey{tuple.Versionstamp{Transaction: [10]byte{1, 2}, User: 3}})
		}, "026c6f6700" + "33" + "01020000000000000000" + "0003"},
	} {
		got, err := c.got()
		if hex.EncodeToString(got) != c.want || err != nil {
			t.Errorf("%s: got %x, %v, want %s", name, got, err, c.want)
		}
	}
}

// An everythingKey has an element of every kind.
type everythingKey struct {
	I       int64
	N       int
	U       uint64
	At      time.Time
	S       string
	B       []byte
	Yes     bool
	F       float64
	UUID    tuple.UUID
	ID      tuple.UUID
	Label   uint16
	Stamp   tuple.Versionstamp
	Any     tuple.Element
	Host    [3]byte
	Created *int64
	Name    *string
}

func (k *everythingKey) Elements(e *keys.Elements) {
	e.Const("all", nil, int64(-1), tuple.Tuple{true})
	e.Int64(&k.I)
	e.Int(&k.N)
	e.Uint64(&k.U)
	e.Time(&k.At)
	e.String(&k.S)
	e.Bytes(&k.B)
	e.Bool(&k.Yes)
	e.Float64(&k.F)
	e.UUID(&k.UUID)
	e.ID(&k.ID, &k.Label)
	e.Versionstamp(&k.Stamp)
	e.Element(&k.Any)
	e.Fixed(k.Host[:])
	keys.Optional(e, &k.Created, e.Int64)
	keys.Optional(e, &k.Name, e.String)
}

func (everythingKey) Value() keys.Codec[tuple.Tuple] { return keys.Tuple() }

// tuple is the key as package tuple would have it.
func (k *everythingKey) tuple() tuple.Tuple {
	t := tuple.Tuple{"all", nil, -1, tuple.Tuple{true}, k.I, k.N, k.U, k.At.UnixMilli(), k.S, k.B, k.Yes,
		k.F, k.UUID, tuple.NewID(k.ID, k.Label), k.Stamp, k.Any, k.Host[:]}
	if k.Created != nil {
		t = append(t, *k.Created)
	}
	if k.Name != nil {
		t = append(t, *k.Name)
	}
	return t
}

func drawKey(t *rapid.T, name string) everythingKey {
	any := rapid.OneOf(rapid.Just[tuple.Element](nil), rapid.Map(rapid.Int64(), func(v int64) tuple.Element { return v }),
		rapid.Map(rapid.StringMatching(`[\x00-\x02a]{0,3}`), func(v string) tuple.Element { return v }),
		rapid.Map(rapid.Bool(), func(v bool) tuple.Element { return tuple.Tuple{v, nil} }))
	few := rapid.Int64Range(-2, 2) // so that keys often share a beginning
	k := everythingKey{
		I: rapid.OneOf(few, rapid.Int64()).Draw(t, name+" I"), N: int(few.Draw(t, name+" N")),
		U:  rapid.OneOf(rapid.Uint64Range(0, 2), rapid.Uint64()).Draw(t, name+" U"),
		At: at(rapid.Int64Range(-3, 1<<40).Draw(t, name+" At")),
		S:  rapid.StringMatching(`[\x00-\x01é]{0,2}`).Draw(t, name+" S"), B: []byte(rapid.StringMatching(`[\x00-\x01]{0,2}`).Draw(t, name+" B")),
		Yes: rapid.Bool().Draw(t, name+" Yes"), F: rapid.Float64().Draw(t, name+" F"),
		UUID: tuple.UUID{rapid.Byte().Draw(t, name+" UUID")}, ID: tuple.UUID{rapid.Byte().Draw(t, name+" ID")},
		Label: rapid.Uint16().Draw(t, name+" Label"), Stamp: tuple.Versionstamp{User: rapid.Uint16().Draw(t, name+" Stamp")},
		Any: any.Draw(t, name+" Any"), Host: [3]byte{rapid.Byte().Draw(t, name+" Host")}, Created: rapid.Ptr(few, true).Draw(t, name+" Created"),
	}
	if k.Created != nil {
		k.Name = rapid.Ptr(rapid.Just("n"), true).Draw(t, name+" Name")
	}
	return k
}

// TestKeyProperties: a key is packed as its tuple is, so keys sort as tuples do;
// unpacked, it is the same again; and it is taken for no other type.
func TestKeyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t, "a"), drawKey(t, "b")
		pa, err := keys.Append(nil, a)
		pb, err2 := keys.Append(nil, b)
		if err != nil || err2 != nil || !bytes.Equal(pa, a.tuple().Pack()) {
			t.Fatalf("%v packs to %x, %v, %v; as a tuple to %x", a, pa, err, err2, a.tuple().Pack())
		}
		if got, want := bytes.Compare(pa, pb), tuple.Compare(a.tuple(), b.tuple()); got != want {
			t.Errorf("bytes compare %d, tuples %d", got, want)
		}
		back, err := keys.Parse[everythingKey](pa)
		if err != nil || tuple.Compare(back.tuple(), a.tuple()) != 0 {
			t.Errorf("%v unpacks to %v, %v", a.tuple(), back.tuple(), err)
		}
		for _, damaged := range [][]byte{pa[:rapid.IntRange(0, len(a.tuple()[:14].Pack())).Draw(t, "cut")], append(bytes.Clone(pa), 0x15)} {
			if k, err := keys.Parse[everythingKey](damaged); !errors.Is(err, keys.ErrOtherKey) {
				t.Errorf("%x of %x: got %v, %v", damaged, pa, k, err)
			}
		}
	})
}

// FuzzParseKey: bytes that are a key of some type are the one form of it, and nothing
// makes unpacking panic.
func FuzzParseKey(f *testing.F) {
	for _, k := range []everythingKey{{}, {I: math.MinInt64, U: math.MaxUint64, F: math.Inf(-1), Any: "x", Created: new(int64)}} {
		b, err := keys.Append(nil, k)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(pack(actor, data, "u", image, 3))
	f.Add(pack("log", tuple.Versionstamp{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		oneForm[everythingKey](t, b)
		oneForm[imageKey](t, b)
		oneForm[workflowKey](t, b)
		oneForm[logKey](t, b)
		oneForm[evenKey](t, b)
		oneForm[hostKey](t, b)
	})
}

func oneForm[K any, P keys.Pointer[K]](t *testing.T, b []byte) {
	k, err := keys.Parse[K, P](b)
	if err != nil {
		if !errors.Is(err, keys.ErrOtherKey) {
			t.Errorf("%x: %v", b, err)
		}
		return
	}
	got, err := keys.Append[K, P](nil, k)
	if !bytes.Equal(got, b) || err != nil {
		t.Errorf("%x is %+v, which packs to %x, %v", b, k, got, err)
	}
}

// TestOtherKeys: the constants, the kinds and the number of elements tell types apart.
func TestOtherKeys(t *testing.T) {
	for name, c := range map[string]struct {
		key []byte
		ok  bool
	}{
		"right":                        {pack(actor, data, "u", image, 7), true},
		"other constant":               {pack(actor, data, "u", profile, 7), false},
		"other first constant":         {pack(actor+1, data, "u", image, 7), false},
		"other kind":                   {pack(actor, data, []byte("u"), image, 7), false},
		"other kind at the end":        {pack(actor, data, "u", image, "7"), false},
		"integer that isn't an int64":  {pack(actor, data, "u", image, uint64(math.MaxUint64)), false},
		"too short":                    {pack(actor, data, "u", image), false},
		"too long":                     {pack(actor, data, "u", image, 7, nil), false},
		"constant of a longer element": {append(pack(actor, data, "u", image, 7), 0xff), false},
		"no tuple":                     {[]byte{0xfe}, false},
		"empty":                        {nil, false},
	} {
		k, err := keys.Parse[imageKey](c.key)
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, keys.ErrOtherKey) {
			t.Errorf("%s: got %v, %v", name, k, err)
		}
	}
	for _, host := range []any{[]byte{1, 2}, []byte{1, 2, 3, 4}, "abc", nil} {
		if k, err := keys.Parse[hostKey](pack(host)); !errors.Is(err, keys.ErrOtherKey) {
			t.Errorf("%v: got %v, %v", host, k, err)
		}
	}
	// The text "log" is not the beginning of "log\x00…", though its bytes are.
	if k, err := keys.Parse[changedKey](pack("changed\x00")); !errors.Is(err, keys.ErrOtherKey) {
		t.Errorf("got %v, %v", k, err)
	}
}

// A hostKey is (3 bytes).
type hostKey struct{ Host [3]byte }

func (k *hostKey) Elements(e *keys.Elements) { e.Fixed(k.Host[:]) }

// An evenKey is (even), or (even, number) with an even number other than 0.
type evenKey struct{ Number int }

func (k *evenKey) Elements(e *keys.Elements) {
	e.Const("even")
	if e.More(k.Number != 0) {
		e.Int(&k.Number)
		e.Require(k.Number%2 == 0 && k.Number != 0)
	}
}

func (evenKey) Value() keys.Codec[struct{}] { return keys.Empty() }

// TestRequire: a type can say more than which elements there are.
func TestRequire(t *testing.T) {
	d := store()
	for _, n := range []int{0, 1, 2, 3, 4} {
		must(t, d.Set(pack("even", n), nil))
	}
	must(t, d.Set(pack("even"), nil))
	equal(t, "even", words(t, keys.All[evenKey](ctx, d, sub("even"), &keys.ScanOptions{Self: true})), "{0}", "{2}", "{4}")
	if err := keys.Put(d, evenKey{3}, struct{}{}); !errors.Is(err, tuple.ErrUnsupported) {
		t.Errorf("got %v, want %v", err, tuple.ErrUnsupported)
	}
}

// A mistakenKey has an element that no tuple can hold.
type mistakenKey struct{ when time.Duration }

func (k *mistakenKey) Elements(e *keys.Elements) { e.Const(k.when) }
func (mistakenKey) Value() keys.Codec[int64]     { return keys.Int64() }

// TestMistakenKey: a mistake in a type is told, and no reason to skip its entries.
func TestMistakenKey(t *testing.T) {
	d := store(kv.Set([]byte{0x14}, nil))
	_, err := keys.Parse[mistakenKey]([]byte{0x14})
	_, getErr := keys.Get(ctx, d, mistakenKey{})
	scanErr := scanError(keys.All[mistakenKey](ctx, d, sub(), nil))
	_, textErr := keys.Exists(ctx, d, wakeKey{under{"\xff"}})
	for name, err := range map[string]error{"parse": err, "get": getErr, "put": keys.Put(d, mistakenKey{}, 1), "delete": keys.Delete(d, mistakenKey{}),
		"all": scanErr, "text": textErr} {
		if !errors.Is(err, tuple.ErrUnsupported) {
			t.Errorf("%s: got %v, want %v", name, err, tuple.ErrUnsupported)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Sub of a key that can't be packed doesn't panic")
		}
	}()
	keys.Sub(mistakenKey{})
}

func TestGetPutDelete(t *testing.T) {
	d := store()
	k := profileKey{under{"ada"}}
	if v, err := keys.Get(ctx, d, k); !errors.Is(err, kv.ErrNotFound) || v != (person{}) {
		t.Errorf("missing: got %v, %v", v, err)
	}
	if v, ok, err := keys.Find(ctx, d, k); ok || err != nil || v != (person{}) {
		t.Errorf("missing: got %v, %v, %v", v, ok, err)
	}
	if ok, err := keys.Exists(ctx, d, k); ok || err != nil {
		t.Errorf("missing: got %v, %v", ok, err)
	}
	must(t, keys.Put(d, k, person{"Ada", 36}))
	must(t, keys.Put(d, wakeKey{under{"ada"}}, at(5)))
	if v, err := keys.Get(ctx, d, k); v != (person{"Ada", 36}) || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
	if v, ok, err := keys.Find(ctx, d, k); v.Name != "Ada" || !ok || err != nil {
		t.Errorf("got %v, %v, %v", v, ok, err)
	}
	if ok, err := keys.Exists(ctx, d, k); !ok || err != nil {
		t.Errorf("got %v, %v", ok, err)
	}
	must(t, keys.Delete(d, k))
	must(t, keys.Delete(d, k))
	want := hex.EncodeToString(pack(actor, data, "ada", wakeTime)) + " 0000000000000005"
	if rows := d.rows(t); len(rows) != 1 || rows[0] != want {
		t.Errorf("left are %q, want %q", rows, want)
	}
}

// TestDeleteSubspace: everything in it, and not the key that is its prefix.
func TestDeleteSubspace(t *testing.T) {
	u := under{"ada"}
	prefix := keys.Sub(u)
	d := store(kv.Set(prefix.Bytes(), nil), kv.Set(append(bytes.Clone(prefix.Bytes()), 0xff), nil))
	must(t, keys.Put(d, wakeKey{under{"ad"}}, at(1)))
	must(t, keys.Put(d, wakeKey{under{"ada\x00"}}, at(1)))
	kept := len(d.rows(t))
	must(t, keys.Put(d, wakeKey{u}, at(1)))
	must(t, keys.Put(d, u.image(1), make([]byte, ChunkAndMore)))
	must(t, keys.DeleteSubspace(d, prefix))
	if rows := d.rows(t); len(rows) != kept {
		t.Errorf("left are %q", rows)
	}
	d.err = errors.New("no")
	if err := keys.DeleteSubspace(d, prefix); !errors.Is(err, d.err) || !strings.Contains(err.Error(), `(32, 4, "ada")`) {
		t.Errorf("got %v", err)
	}
}

// ChunkAndMore is the length of a value that needs two pieces.
const ChunkAndMore = keys.ChunkSize + 1

// TestDamagedValue: the error names the type, the key and what is wrong.
func TestDamagedValue(t *testing.T) {
	k := wakeKey{under{"ada"}}
	packed := pack(actor, data, "ada", wakeTime)
	d := store(kv.Set(packed, []byte{1, 2, 3}))
	_, err := keys.Get(ctx, d, k)
	want := `keys: get keys_test.wakeKey (32, 4, "ada", 21): value of 3 bytes, want 8: kv: corrupt`
	var e *keys.Error
	if err == nil || err.Error() != want || !errors.Is(err, kv.ErrCorrupt) || !errors.As(err, &e) || !bytes.Equal(e.Key, packed) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if ok, err := keys.Exists(ctx, d, k); !ok || err != nil {
		t.Errorf("exists: got %v, %v", ok, err)
	}
	all := scanError(keys.All[wakeKey](ctx, d, sub(), nil))
	want = `keys: scan keys_test.wakeKey (32, 4, "ada", 21): value of 3 bytes, want 8: kv: corrupt`
	if all == nil || all.Error() != want {
		t.Errorf("got  %v\nwant %s", all, want)
	}
	if _, _, err := keys.ParseEntry[wakeKey](kv.Entry{Key: packed, Value: []byte{1}}); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// TestKeyErrors: what the store says is wrapped with the key.
func TestKeyErrors(t *testing.T) {
	d := store()
	must(t, d.Close())
	k, i := wakeKey{under{"u"}}, under{"u"}.image(1)
	_, get := keys.Get(ctx, d, k)
	_, _, find := keys.Find(ctx, d, i)
	_, exists := keys.Exists(ctx, d, k)
	_, any := keys.Exists(ctx, d, i)
	errs := map[string]error{"get": get, "find": find, "exists": exists, "any": any, "put": keys.Put(d, k, at(1)), "chunks": keys.Put(d, i, nil),
		"delete": keys.Delete(d, k), "mutate": keys.Mutate(d, txn.MutationByteMax, k, at(1))}
	for name, err := range errs {
		var e *keys.Error
		if !errors.Is(err, kv.ErrClosed) || !errors.As(err, &e) || !strings.Contains(err.Error(), `(32, 4, "u", `) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := scanError(keys.All[wakeKey](ctx, d, sub(), nil)); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestParseEntry(t *testing.T) {
	v := []byte{0, 0, 0, 0, 0, 0, 0, 9}
	k, got, err := keys.ParseEntry[wakeKey](kv.Entry{Key: pack(actor, data, "u", wakeTime), Value: v})
	if k.User != "u" || !got.Equal(at(9)) || err != nil {
		t.Errorf("got %v, %v, %v", k, got, err)
	}
	if _, _, err := keys.ParseEntry[wakeKey](kv.Entry{Key: pack(actor, data, "u", profile), Value: v}); !errors.Is(err, keys.ErrOtherKey) {
		t.Errorf("got %v", err)
	}
	if _, _, err := keys.ParseEntry[imageKey](kv.Entry{Key: pack(actor, data, "u", image, 1)}); !errors.Is(err, keys.ErrOtherKey) {
		t.Errorf("got %v", err)
	}
}
