package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPath(t *testing.T) {
	s := &Snapshot{Names: []string{"order", "charge", "a/b", "loop", "", ".", "x~3", "#9", "日本", `q"q`, "two words", "\xff"}}
	root := Location("")
	if i, ok := s.Lookup("loop"); i != 3 || !ok {
		t.Errorf("loop is name %d, %v", i, ok)
	}
	if _, ok := s.Lookup("nobody"); ok {
		t.Error("nobody is a name")
	}
	for _, tt := range []struct {
		l    Location
		want string
	}{
		{root, "."},
		{root.Name(0).Name(1), "order/charge"},
		{root.Name(3).Iteration(3, 7).Name(1), "loop[7]/charge"},
		{root.Name(3).Iteration(3, 7), "loop[7]"},
		{root.Name(3).Iteration(3, 7).Name(3).Iteration(3, 0), "loop[7]/loop[0]"},
		{root.Name(2).Name(4), `"a/b"/""`},
		{root.Name(5), `"."`},
		{root.Name(6).Name(7).Name(8), `"x~3"/"#9"/日本`},
		{root.Name(9).Name(10).Name(11), `"q\"q"/"two words"/"\xff"`},
		{root.Name(77), "#77"},
		{root.Name(77).Iteration(77, 1).Name(0), "#77[1]/order"},
		// What no program writes has words, too.
		{root.Iteration(3, 1), "~loop[1]"},
		{root.Name(0).Iteration(3, 1), "order/~loop[1]"},
		{root.Name(3).Iteration(3, 1).Iteration(3, 1), "loop[1]/~loop[1]"},
	} {
		if got := s.Path(tt.l); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// Different places have different words, whatever the names are.
func TestPathInjective(t *testing.T) {
	s := &Snapshot{Names: []string{"a", "b", "a/b", "a[1]", "~a", "~a[1]", "#0", "", "/", `"a"`, `\"`, "a[1]/b", "[", "]"}}
	r := random{rand.New(rand.NewPCG(4, 4))}
	seen := map[string]Location{}
	for range 20_000 {
		l := Location("")
		for range r.IntN(4) {
			if i := NameIndex(r.IntN(len(s.Names) + 1)); r.IntN(3) > 0 {
				l = l.Name(i)
			} else {
				l = l.Iteration(i, uint32(r.IntN(3)))
			}
		}
		path := s.Path(l)
		if other, ok := seen[path]; ok && other != l {
			t.Fatalf("%x and %x are both %s", string(l), string(other), path)
		}
		seen[path] = l
	}
}

func TestLocation(t *testing.T) {
	root := Location("")
	loop := root.Name(300)
	x := loop.Iteration(300, 256).Name(0)
	var got []segment
	for s := range x.segments() {
		got = append(got, s)
	}
	if want := []segment{{Name: 300}, {300, true, 256}, {}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range x.segments() {
		break
	}
	parent, last, ok := x.Parent()
	if parent != loop.Iteration(300, 256) || last != (segment{}) || !ok {
		t.Errorf("parent %x, %v", string(parent), last)
	}
	if _, _, ok := root.Parent(); ok {
		t.Error("the root has a parent")
	}
	for _, tt := range []struct {
		l, scope Location
		want     bool
	}{
		{x, root, true}, {root, root, true}, {x, loop, true}, {x, x, true}, {x, loop.Iteration(300, 256), true},
		{x, loop.Iteration(300, 25), false}, {loop, x, false}, {root.Name(256), root.Name(1), false}, {root.Name(1), root.Name(256), false},
	} {
		if got := tt.l.Within(tt.scope); got != tt.want {
			t.Errorf("%x within %x: %v", string(tt.l), string(tt.scope), got)
		}
	}
	// In the order in which they are stored: nested tuples sort before integers.
	order := []Location{root, root.Name(0), loop, loop.Iteration(300, 0), loop.Iteration(300, 255), loop.Iteration(300, 256),
		loop.Iteration(300, 256).Name(0), loop.Iteration(300, 65536), loop.Name(1), root.Name(301)}
	if !slices.IsSorted(order) {
		t.Errorf("%x is not sorted", order)
	}
	for _, s := range []string{"05", "0514", "051414", "051414ff", "13fe", "02610000", "190100000000", "0514141400"} {
		_, err := parseLocation(unhex(t, s))
		wantErr(t, s, err, errCorrupt)
	}
	defer func() {
		if recover() == nil {
			t.Error("a text was a location")
		}
	}()
	for range Location("text").segments() {
		continue
	}
}

func TestMillis(t *testing.T) {
	for _, tt := range []struct {
		t    time.Time
		want Millis
	}{
		{time.UnixMilli(1700000000000), 1700000000000},
		{time.UnixMilli(1700000000000).Add(1), 1700000000001},
		{time.UnixMilli(0), 0}, {time.UnixMilli(-5), 0}, {time.Time{}, 0},
		{time.UnixMilli(0).Add(time.Microsecond), 1},
	} {
		if got := MillisOf(tt.t); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.t, got, tt.want)
		}
	}
	if got := Millis(1700000000000).Time(); !got.Equal(time.UnixMilli(1700000000000)) || got.Location() != time.UTC {
		t.Errorf("got %v", got)
	}
	if Millis(1<<64 - 1).Time().Before(Millis(5).Time()) {
		t.Error("the end of time is before its beginning")
	}
}

// ByAge is the order in which things were done.
func TestByAge(t *testing.T) {
	s := &Snapshot{}
	for i, created := range []Millis{30, 0, 10, 30, 20} {
		e := Entry{ID: string(rune('a' + i)), Location: Location("").Name(NameIndex(i)), Metadata: &Metadata{CreatedAt: created}}
		if created == 0 {
			e.Metadata = nil
		}
		s.Entries = append(s.Entries, e)
	}
	got := ""
	for _, e := range s.ByAge() {
		got += e.ID
	}
	if got != "bcead" {
		t.Errorf("got %s", got)
	}
}
