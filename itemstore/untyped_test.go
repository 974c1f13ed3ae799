package itemstore_test

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestUntyped: what has no Go types puts what it has read as JSON, and it is as it was.
func TestUntyped(t *testing.T) {
	type All struct {
		_     struct{} `path:"/a-:ID"`
		ID    [16]byte
		Text  string
		Bytes []byte
		Int   int8
		Uint  uint64
		Bool  bool
		Float float64
		Time  time.Time
		Dur   time.Duration
		List  []int
		Map   map[string]float64
		Nums  map[int][]byte
		Big   *big.Int
		In    struct {
			A string
			B []byte
			C [16]byte
			T time.Time
			D time.Duration
			L []time.Time
			M map[string]string
			Z *struct{}
		}
		Ptr *string
		Any any
	}
	text := "p"
	want := &All{ID: [16]byte{1}, Text: "ü\n", Bytes: []byte{0, 1}, Int: -3, Uint: 1<<64 - 1, Bool: true, Float: 1.5,
		Time: time.Date(2024, 2, 3, 4, 5, 6, 7, time.UTC), Dur: time.Minute, List: []int{1, -2},
		Map: map[string]float64{"x": 2.5}, Nums: map[int][]byte{5: {1}, -1: {}},
		Big: new(big.Int).Lsh(big.NewInt(1), 100), Ptr: &text, Any: "any"}
	want.In.A, want.In.B, want.In.C = "a", []byte{9}, [16]byte{15: 1}
	want.In.T, want.In.D, want.In.L = want.Time, time.Hour, []time.Time{want.Time}
	want.In.M = map[string]string{"$bytes": "AAE="}
	e := memkv.New()
	defer e.Close()
	s := open(t, e, "s", 1, itemstore.TypeOf[All](nil))
	if err := s.Put(t.Context(), want, nil); err != nil {
		t.Fatal(err)
	}
	untyped, err := itemstore.Open(t.Context(), e, "s", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	items, err := untyped.Items(t.Context(), itemstore.At("a", want.ID))
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	b, err := json.Marshal(items[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", b)
	item, err := untyped.NewItem("All")
	if err == nil {
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.DisallowUnknownFields()
		err = d.Decode(item)
	}
	if err == nil {
		err = untyped.Put(t.Context(), item, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := itemstore.Get[All](t.Context(), s, itemstore.At("a", want.ID))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Time.Equal(want.Time) {
		t.Errorf("got %v, want %v", got.Time, want.Time)
	}
	got.Time = want.Time
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestUntypedBad refuses JSON that stands for nothing.
func TestUntypedBad(t *testing.T) {
	type A struct {
		_  struct{} `path:"/a-:ID"`
		ID int
		V  any
	}
	e := memkv.New()
	defer e.Close()
	open(t, e, "s", 1, itemstore.TypeOf[A](nil))
	s, err := itemstore.Open(t.Context(), e, "s", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{"$bytes":"?"}`, `{"$bytes":1}`, `{"$time":"now"}`, `{"$int":"x"}`, `{"$int":[]}`, `{"$map":{}}`, `{"$map":[[1]]}`,
		`{"$tag":[1]}`, `{"$tag":["x",1]}`, `{"$tag":[-1,1]}`, `{"$other":1}`, `[{"a":{"$bytes":"?"}}]`,
	} {
		item, err := s.NewItem("A")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{"ID":1,"V":`+text+`}`), item); err == nil {
			t.Errorf("%s: %+v", text, item)
		}
	}
}

// TestUnfitWithoutTypes: what a store without Go types takes, programs can read; and an item that it puts as it has read it is the same.
func TestUnfitWithoutTypes(t *testing.T) {
	ctx := t.Context()
	type thing struct {
		_     struct{} `name:"Thing" path:"/thing-:ID"`
		ID    int
		Small uint8
		Ratio float32
		Words []string
		Lists [][]string
		At    struct{ X int }
		Where netip.Addr
		Maybe *int
	}
	e := memory(t)
	s, err := itemstore.Open(ctx, e, "things", schemaOf(t, 1, itemstore.TypeOf[thing](nil)), nil)
	if err == nil {
		err = s.Put(ctx, &thing{ID: 1, Maybe: new(int)}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	u, err := itemstore.Open(ctx, e, "things", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	items, err := u.Items(ctx, "/thing-1")
	if err == nil {
		err = u.Put(ctx, items[0].Value, nil)
	}
	if got, err2 := itemstore.Get[thing](ctx, s, "/thing-1"); err != nil || err2 != nil || got.Maybe == nil {
		t.Errorf("%+v, %v, %v", got, err, err2)
	}
	for _, text := range []string{`"Small":300`, `"Ratio":1e300`, `"Maybe":"x"`, `"Words":{"a":1}`, `"Words":[1]`, `"At":"x"`, `"Lists":5`} {
		item, err := u.NewItem("Thing")
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal([]byte(`{"ID":2,`+text+`}`), item) != nil {
			continue // refused, as it should be
		}
		if err := u.Put(ctx, item, nil); err != nil {
			continue // refused, as it should be
		}
		for _, err := range s.List(ctx, "", nil) {
			if err != nil {
				t.Errorf("%s is put, and then: %v", text, err)
			}
		}
	}
}
