package itemstore_test

import (
	"fmt"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A member is an item with two aliases: in a team, and by its email through its primary row.
type member struct {
	_     struct{} `path:"/member-:ID, /team-:Team/member-:ID, /email-:Email ref"`
	ID    uint64
	Team  string
	Email string
	Note  []byte
}

func newMember(id uint64, team string) *member {
	return &member{ID: id, Team: team, Email: fmt.Sprintf("%d@example.com", id), Note: make([]byte, 100)}
}

// counted returns a store of members, so many in one team, on an engine that counts.
func counted(t *testing.T, n int) (*itemstore.Store, *faultkv.Engine) {
	t.Helper()
	e := faultkv.New(memkv.New())
	t.Cleanup(func() { e.Close() })
	schema, err := itemstore.NewSchema(1, itemstore.TypeOf[member](nil))
	if err != nil {
		t.Fatal(err)
	}
	s, err := itemstore.Open(t.Context(), e, "team", schema, nil)
	for id := 1; err == nil && id <= n; {
		var items []any
		for ; id <= n && len(items) < 1000; id++ {
			items = append(items, newMember(uint64(id), "blue"))
		}
		err = s.PutAll(t.Context(), items, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

// TestReads: how often the engine is asked doesn't depend on how many items a group has.
func TestReads(t *testing.T) {
	for _, n := range []int{1_000, testkit.Pick(2_000, 20_000, 1_000_000)} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { holdReads(t, n) })
	}
}

func holdReads(t *testing.T, n int) {
	ctx := t.Context()
	s, e := counted(t, n)
	get := func(path itemstore.Path) func() error {
		return func() error { _, err := itemstore.Get[member](ctx, s, path); return err }
	}
	page, err := s.Page(ctx, "/team-blue", &itemstore.ListOptions{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []struct {
		name string
		want faultkv.Counts
		do   func() error
	}{
		{"get by the primary path", faultkv.Counts{Gets: 1}, get("/member-7")},
		{"get by an alias", faultkv.Counts{Gets: 1}, get("/team-blue/member-7")},
		{"get through an alias", faultkv.Counts{Gets: 3, Attempts: 1}, get("/email-7@example.com")},
		{"put a new item", faultkv.Counts{Gets: 4, Commits: 1, Attempts: 1}, func() error { return s.Put(ctx, newMember(uint64(n+1), "blue"), nil) }},
		{"put it again", faultkv.Counts{Gets: 2, Commits: 1, Attempts: 1}, func() error { return s.Put(ctx, newMember(uint64(n+1), "blue"), nil) }},
		{"list 100", faultkv.Counts{Gets: 1, Scans: 1, Attempts: 1}, func() error {
			found := 0
			for _, err := range s.List(ctx, "/team-blue", &itemstore.ListOptions{Limit: 100}) {
				if err != nil {
					return err
				}
				found++
			}
			if found != 100 {
				t.Errorf("listed %d items", found)
			}
			return nil
		}},
		{"page of 100", faultkv.Counts{Gets: 2, Scans: 2, Attempts: 1}, func() error {
			_, err := s.Page(ctx, "/team-blue", &itemstore.ListOptions{Limit: 100})
			return err
		}},
		{"sync nothing", faultkv.Counts{Gets: 2, Scans: 1, Attempts: 1}, func() error { _, err := s.Sync(ctx, page.Token); return err }},
	} {
		before := e.Counts()
		if err := op.do(); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		got := e.Counts()
		for _, c := range []struct {
			what      string
			got, want int64
		}{
			{"gets", got.Gets - before.Gets, op.want.Gets}, {"scans", got.Scans - before.Scans, op.want.Scans},
			{"commits", got.Commits - before.Commits, op.want.Commits}, {"attempts", got.Attempts - before.Attempts, op.want.Attempts},
		} {
			if c.got != c.want {
				t.Errorf("%s takes %d %s, want %d", op.name, c.got, c.what, c.want)
			}
		}
	}
}

// TestGetNewer: a Store that does nothing but gets reads what a version put that it hasn't seen yet as that version says.
func TestGetNewer(t *testing.T) {
	type v1 struct {
		_    struct{} `name:"T" path:"/t-:ID"`
		ID   int
		Plan string `item:"required"`
	}
	type v2 struct {
		_    struct{} `name:"T" path:"/t-:ID"`
		ID   int
		Plan string `item:"default=free"`
	}
	ctx := t.Context()
	e := faultkv.New(memkv.New())
	open := func(version int, typ itemstore.Type) *itemstore.Store {
		s, err := itemstore.Open(ctx, e, "s", schemaOf(t, version, typ), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s1 := open(1, itemstore.TypeOf[v1](nil))
	s2 := open(2, itemstore.TypeOf[v2](nil))
	if err := s2.Put(ctx, &v2{ID: 1}, nil); err != nil {
		t.Fatal(err)
	}
	for _, attempts := range []int64{1, 0} { // the first one reads the schema, and the next one knows it
		e.Reset()
		if got, err := itemstore.Get[v1](ctx, s1, "/t-1"); err != nil || got.Plan != "free" {
			t.Errorf("got %+v, %v", got, err)
		}
		if n := e.Counts().Attempts; n != attempts {
			t.Errorf("%d attempts, want %d", n, attempts)
		}
	}
}

// TestAllocations holds how many objects a get and a list allocate.
func TestAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates, too")
	}
	ctx := t.Context()
	s, _ := counted(t, 200)
	for _, op := range []struct {
		name string
		most float64
		do   func() error
	}{
		{"get", 13, func() error { _, err := itemstore.Get[member](ctx, s, "/team-blue/member-7"); return err }},
		{"list 100", 700, func() error {
			for _, err := range s.List(ctx, "/team-blue", &itemstore.ListOptions{Limit: 100}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		got := testing.AllocsPerRun(100, func() {
			if err := op.do(); err != nil {
				t.Fatal(err)
			}
		})
		if got > op.most {
			t.Errorf("%s allocates %v objects, want %v at most", op.name, got, op.most)
		}
	}
}
