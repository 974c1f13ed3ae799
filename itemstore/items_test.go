package itemstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

type Course struct {
	_           struct{} `path:"/course-:ID/year-:Year/quarter-:Quarter"`
	ID          string
	Year        uint
	Quarter     uint8
	Name        string
	Instructors []uint64
}

type Student struct {
	_              struct{} `path:"/student-:ID, /classof-:GraduatingYear/student-:ID"`
	ID             uint64
	GraduatingYear uint
	Name           string
	Meta           itemstore.Meta
}

type Enrolled struct {
	_       struct{} `path:"/course-:Course/year-:Year/quarter-:Quarter/student-:Student, /student-:Student/year-:Year/quarter-:Quarter/course-:Course"`
	Course  string
	Year    uint
	Quarter uint8
	Student uint64
	Paid    bool
	Joined  time.Time         `item:"createdtime"`
	Changed itemstore.Version `item:"modifiedversion"`
}

func schoolSchema(t testing.TB) *itemstore.Schema {
	t.Helper()
	s, err := itemstore.NewSchema(1, itemstore.TypeOf[Course](nil), itemstore.TypeOf[Student](nil), itemstore.TypeOf[Enrolled](nil))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func school(t testing.TB) *itemstore.Store {
	t.Helper()
	e := memkv.New()
	t.Cleanup(func() { e.Close() })
	s, err := itemstore.Open(t.Context(), e, "school", schoolSchema(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// paths returns the paths of a list.
func paths(t testing.TB, ctx context.Context, s *itemstore.Store, prefix itemstore.Path, opts *itemstore.ListOptions) (list []itemstore.Path) {
	t.Helper()
	for item, err := range s.List(ctx, prefix, opts) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, item.Path)
	}
	return list
}

func TestSchool(t *testing.T) {
	ctx := t.Context()
	s := school(t)
	e := &Enrolled{Course: "MATH321", Year: 2023, Quarter: 1, Student: 1234}
	err := s.PutAll(ctx, []any{
		&Student{ID: 1234, GraduatingYear: 2025, Name: "Ada"},
		&Course{ID: "MATH321", Year: 2023, Quarter: 1, Name: "Analysis"},
		e,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Joined.IsZero() || e.Changed == (itemstore.Version{}) {
		t.Errorf("metadata isn't set: %+v", e)
	}
	for _, p := range []itemstore.Path{"/student-1234", "/course-MATH321/year-2023", "/classof-2025"} {
		t.Log(p, paths(t, ctx, s, p, nil))
	}
	got, err := itemstore.Get[Enrolled](ctx, s, "/student-1234/year-2023/quarter-1/course-MATH321")
	if err != nil || got.Student != 1234 || !got.Joined.Equal(e.Joined) || got.Changed != e.Changed {
		t.Fatalf("got %+v, %v, want %+v", got, err, e)
	}
	st, err := itemstore.Update(ctx, s, "/student-1234", func(s *Student) error { s.GraduatingYear = 2026; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if n := paths(t, ctx, s, "/classof-2025", nil); len(n) != 0 {
		t.Errorf("the alias is still there: %v", n)
	}
	if _, err := itemstore.Get[Student](ctx, s, "/classof-2026/student-1234"); err != nil {
		t.Error(err)
	}
	st.ID = 9
	if err := s.Put(ctx, st, nil); !errors.Is(err, itemstore.ErrMoved) {
		t.Errorf("put at another primary path: %v", err)
	}
	if err := s.Delete(ctx, "/classof-2026/student-1234"); err != nil {
		t.Fatal(err)
	}
	if _, err := itemstore.Get[Student](ctx, s, "/student-1234"); !errors.Is(err, itemstore.ErrNotFound) {
		t.Error(err)
	}
	page, err := s.Page(ctx, "/course-MATH321", nil)
	if err != nil || len(page.Items) != 2 {
		t.Fatal(page, err)
	}
	if err := s.Delete(ctx, "/student-1234/year-2023/quarter-1/course-MATH321"); err != nil {
		t.Fatal(err)
	}
	ch, err := s.Sync(ctx, page.Token)
	if err != nil || len(ch.Changes) != 1 || ch.Changes[0].Kind != itemstore.Deleted {
		t.Fatal(ch, err)
	}
	if ch, err = s.Sync(ctx, ch.Token); err != nil || len(ch.Changes) != 0 {
		t.Fatal(ch, err)
	}
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func fromJSON(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
}
