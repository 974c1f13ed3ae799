package itemstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// Three versions of the type User. Version 2 renames Name, adds Country and makes an alias of Mail. Version 3 is
// without Mail and its alias, and with an index.

type userV1 struct {
	_    struct{} `name:"User" path:"/user-:ID"`
	ID   int
	Name string `item:"required"`
	Mail string
}

type userV2 struct {
	_        struct{} `name:"User" path:"/user-:ID, /mail-:Mail"`
	ID       int
	FullName string `item:"was=Name,required"`
	Mail     string
	Country  string `item:"required,default=DE"`
}

type userV3 struct {
	_        struct{} `name:"Account" was:"User" path:"/user-:ID, /user-:ID/@country-:Country" removed:"Mail"`
	ID       int
	FullName string `item:"required"`
	Country  string `item:"required,default=DE"`
	Note     string
}

type teamV2 struct {
	_  struct{} `name:"Team" path:"/team-:ID"`
	ID string
}

func schemaOf(t testing.TB, version int, types ...itemstore.Type) *itemstore.Schema {
	t.Helper()
	s, err := itemstore.NewSchema(version, types...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openUsers(t testing.TB, e kv.Engine, version int) *itemstore.Store {
	t.Helper()
	types := [][]itemstore.Type{
		{itemstore.TypeOf[userV1](nil)},
		{itemstore.TypeOf[userV2](nil), itemstore.TypeOf[teamV2](nil)},
		{itemstore.TypeOf[userV3](nil), itemstore.TypeOf[teamV2](nil)},
	}
	s, err := itemstore.Open(t.Context(), e, "users", schemaOf(t, version, types[version-1]...), &itemstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaVersions has programs of three versions at work on the same items.
func TestSchemaVersions(t *testing.T) {
	ctx := t.Context()
	e := memory(t)
	s1 := openUsers(t, e, 1)
	for id := range 200 {
		if err := s1.Put(ctx, &userV1{ID: id + 1, Name: fmt.Sprint("n", id+1), Mail: fmt.Sprintf("m%d@x", (id+1)%190)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s2 := openUsers(t, e, 2)
	got, err := itemstore.Get[userV2](ctx, s2, "/user-7")
	if err != nil || *got != (userV2{ID: 7, FullName: "n7", Mail: "m7@x", Country: "DE"}) {
		t.Errorf("version 2 reads %+v, %v", got, err)
	}
	// A program of version 1 goes on, and writes the alias that it doesn't know.
	if err := s1.Put(ctx, &userV1{ID: 300, Name: "late", Mail: "late@x"}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := itemstore.Get[userV2](ctx, s2, "/mail-late@x"); err != nil || got.ID != 300 {
		t.Errorf("what version 1 put is %+v, %v", got, err)
	}
	if err := s1.Put(ctx, &userV1{ID: 301, Name: "taken", Mail: "late@x"}, nil); !errors.Is(err, itemstore.ErrPathTaken) {
		t.Errorf("version 1 puts a taken address: %v", err)
	}
	// What was put before is built, but for the addresses that two users have.
	if list, err := s2.Building(ctx); err != nil || len(list) != 1 || list[0].Type != "User" || list[0].Template != "/mail-:Mail" {
		t.Errorf("building: %+v, %v", list, err)
	}
	if err := s1.Build(ctx); !errors.Is(err, itemstore.ErrIncompatible) {
		t.Errorf("a program of version 1 builds: %v", err)
	}
	if err := s2.Build(ctx); err != nil {
		t.Fatal(err)
	}
	if list, err := s2.Building(ctx); err != nil || len(list) != 0 {
		t.Errorf("building: %+v, %v", list, err)
	}
	if n := len(paths(t, ctx, s2, "", nil)); n != 201 {
		t.Errorf("%d users", n)
	}
	for _, id := range []int{1, 11, 188} {
		if got, err := itemstore.Get[userV2](ctx, s2, itemstore.At("mail", fmt.Sprintf("m%d@x", id))); err != nil || got.ID != id {
			t.Errorf("user %d by its address: %+v, %v", id, got, err)
		}
	}
	// Version 2 sets what version 1 doesn't know, and version 1 keeps it.
	if err := s2.Put(ctx, &userV2{ID: 7, FullName: "Seven", Mail: "m7@x", Country: "SE"}, nil); err != nil {
		t.Fatal(err)
	}
	old, err := itemstore.Update(ctx, s1, "/user-7", func(u *userV1) error { u.Mail = "seven@x"; return nil })
	if err != nil || old.Name != "Seven" {
		t.Errorf("version 1 updates %+v, %v", old, err)
	}
	if got, err := itemstore.Get[userV2](ctx, s2, "/mail-seven@x"); err != nil || got.Country != "SE" || got.FullName != "Seven" {
		t.Errorf("version 2 then reads %+v, %v", got, err)
	}
	if _, err := itemstore.Get[userV2](ctx, s2, "/mail-m7@x"); !errors.Is(err, itemstore.ErrNotFound) {
		t.Errorf("the address of before: %v", err)
	}
	// A type that version 1 lacks.
	if err := s2.Put(ctx, &teamV2{ID: "a"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s1.Items(ctx, "/team-a"); !errors.Is(err, itemstore.ErrUnknownType) {
		t.Errorf("version 1 gets a team: %v", err)
	}
	if p := paths(t, ctx, s1, "/team-a", nil); len(p) != 0 {
		t.Errorf("version 1 lists %v", p)
	}

	testVersion3(t, e, s2)
	for _, s := range []*itemstore.Store{s1, s2, openUsers(t, e, 1), openUsers(t, e, 2), openUsers(t, e, 3)} {
		if problems, err := s.Check(ctx); err != nil || len(problems) > 0 {
			t.Errorf("check: %v, %v", problems, err)
		}
	}
}

// testVersion3 goes on with a program of version 3, beside s2 of version 2.
func testVersion3(t *testing.T, e kv.Engine, s2 *itemstore.Store) {
	ctx := t.Context()
	s3 := openUsers(t, e, 3)
	if err := s3.Build(ctx); err != nil {
		t.Fatal(err)
	}
	if p := paths(t, ctx, s3, "/user-7/@country-SE", nil); len(p) != 1 {
		t.Errorf("version 3 lists %v by the country", p)
	}
	u, err := itemstore.Update(ctx, s3, "/user-7", func(u *userV3) error { u.Note = "hello"; return nil })
	if err != nil || u.FullName != "Seven" {
		t.Errorf("version 3 updates %+v, %v", u, err)
	}
	// The alias that version 3 lacks is still kept right for the others.
	if got, err := itemstore.Get[userV2](ctx, s2, "/mail-seven@x"); err != nil || got.ID != 7 {
		t.Errorf("version 2 gets %+v, %v", got, err)
	}
	if err := s3.Delete(ctx, "/user-7"); err != nil {
		t.Fatal(err)
	}
	if _, err := itemstore.Get[userV2](ctx, s2, "/mail-seven@x"); !errors.Is(err, itemstore.ErrNotFound) {
		t.Errorf("the alias of a deleted user: %v", err)
	}
}

// The type T in version 1, and what it can't be in version 2.

type ruled struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string
	Must string `item:"required"`
}

type ruledKind struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string
	Must int `item:"required"`
}

type ruledGone struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string
}

type ruledRemoved struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref" removed:"Must"`
	ID   int
	Name string
}

type ruledAdded struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string
	Must string `item:"required"`
	More string `item:"required"`
}

type ruledOptional struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string
	Must string
}

type ruledRequired struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string `item:"required"`
	Must string `item:"required"`
}

type ruledPrimary struct {
	_    struct{} `name:"T" path:"/t-:ID/u-:Must, /n-:Name ref"`
	ID   int
	Name string
	Must string `item:"required"`
}

type ruledOther struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Must ref"`
	ID   int
	Name string
	Must string `item:"required"`
}

type ruledOption struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name"`
	ID   int
	Name string
	Must string `item:"required"`
}

type ruledUnknown struct {
	_    struct{} `name:"T" path:"/t-:ID, /n-:Name ref"`
	ID   int
	Name string
	Must string `item:"required"`
	New  string `item:"was=Old"`
}

type ruledOtherType struct {
	_  struct{} `name:"U" path:"/t-:ID"`
	ID string
}

type ruledWasNothing struct {
	_  struct{} `name:"U" was:"V" path:"/u-:ID"`
	ID string
}

// TestIncompatible has versions that would break programs of the version before.
func TestIncompatible(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		version int
		typ     itemstore.Type
		want    string // part of the message
	}{
		{2, itemstore.TypeOf[ruledKind](nil), "Must was text, and is int"},
		{2, itemstore.TypeOf[ruledGone](nil), "Must is gone"},
		{2, itemstore.TypeOf[ruledRemoved](nil), "Must can't be removed"},
		{2, itemstore.TypeOf[ruledAdded](nil), "More is required, and items of before lack it"},
		{2, itemstore.TypeOf[ruledOptional](nil), "Must is no longer required"},
		{2, itemstore.TypeOf[ruledRequired](nil), "Name becomes required"},
		{2, itemstore.TypeOf[ruledPrimary](nil), "primary key path"},
		{2, itemstore.TypeOf[ruledOther](nil), "/n-:Must was there before"},
		{2, itemstore.TypeOf[ruledOption](nil), "/n-:Name was there before"},
		{2, itemstore.TypeOf[ruledUnknown](nil), "no field Old"},
		{2, itemstore.TypeOf[ruledOtherType](nil), "R9"},
		{2, itemstore.TypeOf[ruledWasNothing](nil), "no type V"},
		{2, itemstore.TypeOf[ruled](&itemstore.TypeOptions{Codec: rot{}}), "codec"},
		{3, itemstore.TypeOf[ruled](nil), "version 3 follows 1"},
		{1, itemstore.TypeOf[ruledOption](nil), ""},
		{1, itemstore.TypeOf[ruledOtherType](nil), ""},
	} {
		e := memory(t)
		if _, err := itemstore.Open(ctx, e, "s", schemaOf(t, 1, itemstore.TypeOf[ruled](nil)), nil); err != nil {
			t.Fatal(err)
		}
		_, err := itemstore.Open(ctx, e, "s", schemaOf(t, c.version, c.typ), nil)
		if !errors.Is(err, itemstore.ErrIncompatible) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
		}
		s, err := itemstore.Open(ctx, e, "s", schemaOf(t, 1, itemstore.TypeOf[ruled](nil)), nil)
		if err == nil {
			err = s.Put(ctx, &ruled{ID: 1, Must: "x"}, nil)
		}
		if err != nil {
			t.Errorf("after that version 1: %v", err)
		}
	}
}

// rot is a codec.
type rot struct{}

func (rot) Append(dst []byte, item any) ([]byte, error) { return fmt.Appendf(dst, "%+v", item), nil }

func (rot) Decode(b []byte, item any) error { return fmt.Errorf("it can't be read") }

// TestBuildTaken: an item goes without the new path that another item has, and gets the others.
func TestBuildTaken(t *testing.T) {
	type v1 struct {
		_          struct{} `name:"T" path:"/t-:ID"`
		ID         int
		Mail, City string
	}
	type v2 struct {
		_          struct{} `name:"T" path:"/t-:ID, /mail-:Mail, /t-:ID/@city-:City, /city-:City/t-:ID"`
		ID         int
		Mail, City string
	}
	ctx := t.Context()
	e := memory(t)
	s, err := itemstore.Open(ctx, e, "s", schemaOf(t, 1, itemstore.TypeOf[v1](nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutAll(ctx, []any{&v1{ID: 1, Mail: "a", City: "Rome"}, &v1{ID: 2, Mail: "a", City: "Rome"}, &v1{ID: 3, Mail: "b", City: "Oslo"}}, nil); err != nil {
		t.Fatal(err)
	}
	s, err = itemstore.Open(ctx, e, "s", schemaOf(t, 2, itemstore.TypeOf[v2](nil)), &itemstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = s.Build(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[itemstore.Path]string{"/mail-a": "[/mail-a]", "/city-Rome": "[/city-Rome/t-1 /city-Rome/t-2]", "/t-2/@city": "[/t-2/@city-Rome]"} {
		if got := fmt.Sprint(paths(t, ctx, s, prefix, nil)); got != want {
			t.Errorf("below %s lie %s, want %s", prefix, got, want)
		}
	}
	if got, err := itemstore.Get[v2](ctx, s, "/mail-a"); err != nil || got.ID != 1 {
		t.Errorf("the address is that of %+v, %v", got, err)
	}
	if problems, err := s.Check(ctx); err != nil || len(problems) > 0 {
		t.Errorf("check: %v, %v", problems, err)
	}
}

// TestBuildFaults ends Build after each commit, and fails each of its commits, while others write.
func TestBuildFaults(t *testing.T) {
	ctx := t.Context()
	for n := 0; ; n++ {
		e := faultkv.New(memkv.New())
		s1 := openUsers(t, e, 1)
		for id := range 120 {
			if err := s1.Put(ctx, &userV1{ID: id + 1, Name: "n", Mail: fmt.Sprint(id + 1)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		s2 := openUsers(t, e, 2)
		e.Tear(n)
		err := s2.Build(ctx)
		e.Heal()
		if err != nil && !errors.Is(err, faultkv.ErrTorn) {
			t.Fatal(err)
		}
		// Meanwhile an item moves behind the place that Build has come to, and one takes an address.
		if err := s1.Delete(ctx, "/user-120"); err != nil {
			t.Fatal(err)
		}
		if err := s1.Put(ctx, &userV1{ID: 1, Name: "n", Mail: "120"}, nil); err != nil {
			t.Fatal(err)
		}
		if again := openUsers(t, e, 2).Build(ctx); again != nil {
			t.Fatal(again)
		}
		got, errGet := itemstore.Get[userV2](ctx, s2, "/mail-120")
		if errGet != nil || got.ID != 1 {
			t.Errorf("after %d commits: %+v, %v", n, got, errGet)
		}
		for id := 2; id < 120; id++ {
			if got, err := itemstore.Get[userV2](ctx, s2, itemstore.At("mail", fmt.Sprint(id))); err != nil || got.ID != id {
				t.Fatalf("after %d commits user %d: %+v, %v", n, id, got, err)
			}
		}
		if problems, err := s2.Check(ctx); err != nil || len(problems) > 0 {
			t.Errorf("check: %v, %v", problems, err)
		}
		if err == nil {
			if n < 3 {
				t.Errorf("%d commits", n)
			}
			return
		}
	}
}

// TestWithoutTypes reads and writes without Go types what programs with types do.
func TestWithoutTypes(t *testing.T) {
	testWithoutTypes(t, t.Context(), memory(t))
}

func testWithoutTypes(t *testing.T, ctx context.Context, e kv.Engine) {
	if _, err := itemstore.Open(ctx, e, "users", nil, nil); !errors.Is(err, itemstore.ErrNotFound) {
		t.Errorf("a store that isn't there: %v", err)
	}
	s2 := openUsers(t, e, 2)
	if err := s2.Put(ctx, &userV2{ID: 1, FullName: "Ada", Country: "UK"}, nil); err != nil {
		t.Fatal(err)
	}
	s, err := itemstore.Open(ctx, e, "users", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	items, err := s.Items(ctx, "/user-1")
	if err != nil || len(items) != 1 || items[0].Type != "User" {
		t.Fatal(items, err)
	}
	if got := jsonOf(t, items[0].Value); got != `{"ID":1,"FullName":"Ada","Mail":"","Country":"UK"}` {
		t.Errorf("as JSON: %s", got)
	}
	u, err := s.NewItem("User")
	if err != nil {
		t.Fatal(err)
	}
	fromJSON(t, `{"ID": 2, "FullName": "Bo", "Mail": "b"}`, u)
	if err := s.Put(ctx, u, nil); err != nil {
		t.Fatal(err)
	}
	got, err := itemstore.Get[userV2](ctx, s2, "/mail-b")
	if err != nil || *got != (userV2{ID: 2, FullName: "Bo", Mail: "b", Country: "DE"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	bad, _ := s.NewItem("User")
	if err := s.Put(ctx, bad, nil); !errors.Is(err, itemstore.ErrInvalid) {
		t.Errorf("an empty user: %v", err)
	}
	if _, err := s.NewItem("Nothing"); !errors.Is(err, itemstore.ErrUnknownType) {
		t.Errorf("a type that isn't there: %v", err)
	}
}

// TestLargeBatches: what works in transactions of its own gets through items of which few fit into one.
func TestLargeBatches(t *testing.T) {
	if testkit.Race {
		t.Skip("many megabytes, and one goroutine")
	}
	ctx := t.Context()
	type big struct {
		_          struct{} `name:"Big" path:"/big-:K" ttl:"from modified 10s"`
		K, Text, A string
	}
	type bigger struct {
		_          struct{} `name:"Big" path:"/big-:K, /b-:K/a-:A, /c-:K/a-:A, /d-:K/a-:A, /e-:K/a-:A" ttl:"from modified 10s"`
		K, Text, A string
	}
	e, now := memory(t), &at{time.Unix(1000, 0)}
	opts := &itemstore.Options{Now: func() time.Time { return now.Time }, TombstoneAge: time.Second}
	open := func(version int, typ itemstore.Type) *itemstore.Store {
		s, err := itemstore.Open(ctx, e, "big", schemaOf(t, version, typ), opts)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s1 := open(1, itemstore.TypeOf[big](nil))
	for i := range 60 {
		if err := s1.Put(ctx, &big{K: fmt.Sprint("large", i), Text: strings.Repeat("x", 400_000), A: "a"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	s2 := open(2, itemstore.TypeOf[bigger](nil))
	if err := s2.Build(ctx); err != nil {
		t.Errorf("build: %v", err)
	}
	put := func() {
		for i := range 220 {
			b := &bigger{K: fmt.Sprint(i, strings.Repeat("k", 2000)), A: strings.Repeat("a", 2000)}
			if err := s2.Put(ctx, b, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	put()
	if n, err := s2.DeletePrefix(ctx, ""); err != nil || n != 280 {
		t.Errorf("deleted %d, %v", n, err)
	}
	put()
	for range 2 {
		now.Time = now.Add(time.Minute)
		if swept, err := s2.Sweep(ctx); err != nil {
			t.Errorf("sweep: %v, %v", swept, err)
		}
	}
	if problems, err := s2.Check(ctx); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestTwoFieldsOfOne: the name of a field that gets another one isn't that of a new field at once, as both would be stored under it.
func TestTwoFieldsOfOne(t *testing.T) {
	ctx := t.Context()
	type v1 struct {
		_  struct{} `name:"T" path:"/t-:ID"`
		ID int
		A  string
	}
	type v2 struct {
		_    struct{} `name:"T" path:"/t-:ID"`
		ID   int
		A    string
		B, C string `item:"was=A"`
	}
	e := memory(t)
	if _, err := itemstore.Open(ctx, e, "t", schemaOf(t, 1, itemstore.TypeOf[v1](nil)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := itemstore.Open(ctx, e, "t", schemaOf(t, 2, itemstore.TypeOf[v2](nil)), nil); !errors.Is(err, itemstore.ErrIncompatible) {
		t.Errorf("got %v", err)
	}
}

// TestDefaultOfLater: programs read while a version with a default is published, and see it from then on.
func TestDefaultOfLater(t *testing.T) {
	ctx := t.Context()
	type v1 struct {
		_       struct{} `name:"T" path:"/t-:ID"`
		ID      int
		Country string
	}
	type v2 struct {
		_       struct{} `name:"T" path:"/t-:ID"`
		ID      int
		Country string `item:"default=DE"`
	}
	e := memory(t)
	s, err := itemstore.Open(ctx, e, "t", schemaOf(t, 1, itemstore.TypeOf[v1](nil)), nil)
	if err == nil {
		err = s.Put(ctx, &v1{ID: 1}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for country := ""; country == ""; {
				items, err := itemstore.Get[v1](ctx, s, "/t-1") // by a row alone
				if err != nil {
					t.Error(err)
					return
				}
				for item, err := range s.List(ctx, "", nil) {
					if err != nil {
						t.Error(err)
						return
					}
					items = item.Value.(*v1)
				}
				country = items.Country
			}
		})
	}
	if _, err := itemstore.Open(ctx, e, "t", schemaOf(t, 2, itemstore.TypeOf[v2](nil)), nil); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
