package itemstore_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// TestLongFilter lists what a filter leaves of many items. One transaction has no time for it: its clock goes on whenever
// it is read. Backward it is the same, and Sync tells of what was passed.
func TestLongFilter(t *testing.T) {
	var clock, step atomic.Int64
	now := func() time.Time { return time.UnixMilli(clock.Add(step.Load())) }
	e := memkv.New()
	defer e.Close()
	s, err := itemstore.Open(t.Context(), e, "s", schoolSchema(t), &itemstore.Options{Transactions: txn.Options{Now: now, MaxAttempts: 2}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 12_000
	for first := 1; first <= n; first += 500 {
		var items []any
		for i := range 500 {
			items = append(items, &Enrolled{Course: "A", Year: 1, Quarter: 1, Student: uint64(first + i)})
		}
		if err := s.PutAll(t.Context(), items, nil); err != nil {
			t.Fatal(err)
		}
	}
	step.Store(10)
	want := []itemstore.Path{"/course-A/year-1/quarter-1/student-3", "/course-A/year-1/quarter-1/student-11999"}
	opts := &itemstore.ListOptions{Filters: map[string]string{"Enrolled": "this.Student in [3, 11999] || this.Paid"}, Limit: 2}
	if got := paths(t, t.Context(), s, "/course-A", opts); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	page, err := s.Page(t.Context(), "/course-A", opts)
	for err == nil && page.More {
		page, err = s.NextPage(t.Context(), page.Token, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	var back []itemstore.Path
	for at, more := page.Token, true; more; {
		p, err := s.NextPage(t.Context(), at, &itemstore.NextOptions{Backward: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range p.Items {
			back = append(back, item.Path)
		}
		at, more = p.Token, p.More
	}
	if !slices.Equal(back, want[:1]) {
		t.Errorf("backward from the last page: got %q, want %q", back, want[:1])
	}
	step.Store(0)
	if err := s.Put(t.Context(), &Enrolled{Course: "A", Year: 1, Quarter: 1, Student: 6_000, Paid: true}, nil); err != nil {
		t.Fatal(err)
	}
	news, err := s.Sync(t.Context(), page.Token)
	if err != nil || len(news.Changes) != 1 || news.Changes[0].Kind != itemstore.Changed {
		t.Errorf("Sync: got %+v, %v", news, err)
	}
}
