package itemstore_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// open opens a store with types.
func open(t testing.TB, e kv.Engine, name string, version int, types ...itemstore.Type) *itemstore.Store {
	t.Helper()
	schema, err := itemstore.NewSchema(version, types...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := itemstore.Open(t.Context(), e, name, schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNames(t *testing.T) {
	e := memkv.New()
	defer e.Close()
	want := []string{"", "a", "a\x00b", "school", "ä"}
	for i := range want {
		open(t, e, want[len(want)-1-i], 1, itemstore.TypeOf[Student](nil))
	}
	if got, err := itemstore.Names(t.Context(), e); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	empty := memkv.New()
	defer empty.Close()
	if got, err := itemstore.Names(t.Context(), empty); err != nil || len(got) != 0 {
		t.Errorf("of an empty engine: %q, %v", got, err)
	}
}

// TestSchemaInfo shows a schema after fields have changed their names: a store without Go types shows it as
// the one with types does, but for what a Go type alone says.
func TestSchemaInfo(t *testing.T) {
	type Before struct {
		_    struct{} `path:"/a-:ID, /b-:Old/a-:ID" name:"A"`
		ID   uint64
		Old  string
		Gone string
	}
	type After struct {
		_    struct{} `path:"/a-:ID, /b-:New/a-:ID, /a-:ID/@byNew-:New, /c-:In.N nosync" name:"A" removed:"Gone" ttl:"from created 24h"`
		ID   uint64   `item:"rand53"`
		New  string   `item:"was=Old,deprecated,default=x,y" valid:"size(this) < 9"`
		In   struct{ N int8 }
		Time time.Time `item:"modifiedtime"`
	}
	e := memkv.New()
	defer e.Close()
	open(t, e, "s", 1, itemstore.TypeOf[Before](nil))
	s := open(t, e, "s", 2, itemstore.TypeOf[After](nil))
	const want = `{"version":2,"types":[{"name":"A","paths":["/a-:ID","/b-:New/a-:ID","/a-:ID/@byNew-:New nosync","/c-:In.N nosync"],` +
		`"ttl":"from created 24h","fields":[{"name":"ID","kind":"uint64","make":"rand53"},` +
		`{"name":"New","kind":"text","default":"x,y","valid":"size(this) \u003c 9","deprecated":true},{"name":"In","kind":"object"}]}]}`
	untyped, err := itemstore.Open(t.Context(), e, "s", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*itemstore.Store{s, untyped} {
		if got, err := json.Marshal(s.Schema()); err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
}

// TestOpenReadOnly reads the items of an engine that can't be written.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	e, err := pebblekv.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := open(t, e, "s", 1, itemstore.TypeOf[Student](nil)).Put(t.Context(), &Student{ID: 7, Name: "Ada"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = pebblekv.Open(dir, &pebblekv.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := itemstore.Open(t.Context(), e, "s", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(t, t.Context(), s, "", nil); !slices.Equal(got, []itemstore.Path{"/student-7"}) {
		t.Errorf("got %q", got)
	}
}

func TestPathOf(t *testing.T) {
	s := school(t)
	for _, tt := range []struct {
		item any
		want itemstore.Path
		err  error
	}{
		{&Student{ID: 7, GraduatingYear: 2025}, "/student-7", nil},
		{&Enrolled{Course: "A/B", Year: 1, Quarter: 2, Student: 3}, "/course-A%/B/year-1/quarter-2/student-3", nil},
		{&Enrolled{Course: "A/B", Year: 1, Student: 3}, "", itemstore.ErrInvalid},
		{Student{ID: 7}, "", itemstore.ErrUnknownType},
		{nil, "", itemstore.ErrUnknownType},
		{(*Student)(nil), "", itemstore.ErrUnknownType},
	} {
		if got, err := s.PathOf(tt.item); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%+v: got %q, %v, want %q, %v", tt.item, got, err, tt.want, tt.err)
		}
	}
}

// TestNameOfBytes: a name is a text.
func TestNameOfBytes(t *testing.T) {
	e := memory(t)
	if _, err := itemstore.Open(t.Context(), e, "\xff", schoolSchema(t), nil); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	names := []string{"", "a", "a\x00", "a\x00b", "ab"}
	for _, name := range names {
		s, err := itemstore.Open(t.Context(), e, name, schoolSchema(t), nil)
		if err == nil {
			err = s.Put(t.Context(), &Student{ID: 1, Name: name}, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := itemstore.Names(t.Context(), e); err != nil || !slices.Equal(got, names) {
		t.Errorf("%q, %v", got, err)
	}
}
