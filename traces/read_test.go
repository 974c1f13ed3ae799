package traces

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// newTimed is a rig with a clock of its own.
func newTimed(t testing.TB) (*rig, *watch) {
	t.Helper()
	w := newWatch(t0)
	opts := quiet()
	opts.Now, opts.MaxAge = w.now, -1
	return newRig(t, opts), w
}

// at is a time in seconds since the tests begin.
func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// between selects the records of some seconds.
func between(from, to int) Query { return Query{Start: at(from), End: at(to)} }

// everywhere runs check while everything is in memory, when it is stored in one chunk or in
// many, and when nothing has an index.
func everywhere(t *testing.T, do func(r *rig, w *watch, step func()), check func(t *testing.T, r *rig)) {
	t.Helper()
	for _, c := range []struct {
		name         string
		steps, final bool
		index        bool
	}{
		{"memory", false, false, true}, {"one chunk", false, true, true}, {"many chunks", true, true, true},
		{"some in memory", true, false, true}, {"no index", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w := newTimed(t)
			do(r, w, func() {
				if c.steps {
					r.flush()
				}
			})
			if c.final {
				r.flush()
			}
			if !c.index {
				r.dropIndex()
			}
			check(t, r)
			if c.index {
				r.verify(c.name)
			}
		})
	}
}

// dropIndex removes all notes, as if another program had written the chunks.
func (r *rig) dropIndex() {
	r.t.Helper()
	snap, err := r.actor.Snapshot(ctx)
	must(r.t, err)
	var b batch.Batch
	for n, err := range snap.Notes(ctx, notePrefix()) {
		must(r.t, err)
		must(r.t, r.actor.StageNote(&b, slices.Clone(n.Key), nil))
	}
	must(r.t, snap.Close())
	must(r.t, r.actor.Commit(ctx, &b))
}

// TestRange: a span is selected by any record in the range, and shown as it was at the end
// of it, with all that came before.
func TestRange(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		s := r.Begin("long", &StartOptions{Attributes: []Attr{Int("a", 1)}}) // 0
		step()
		w.set(at(10))
		s.SetAttributes(Int("b", 2))
		step()
		w.set(at(15))
		r.Begin("short", nil).End()
		step()
		w.set(at(20))
		s.Event("one")
		w.set(at(21))
		r.Begin("brief", nil).End()
		step()
		w.set(at(30))
		s.Event("two")
		step()
		w.set(at(40))
		s.SetStatus(StatusOK, "")
		s.End()
	}, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			from, to int
			names    string
			a, b     string
			events   string
			running  bool
		}{
			{0, 10, "long", "1", "none", "[]", true},
			{10, 20, "long short", "1", "2", "[]", true},
			{12, 18, "short", "", "", "", false},
			{20, 25, "long brief", "1", "2", "[one]", true},
			{21, 30, "brief", "", "", "", false},
			{25, 35, "long", "1", "2", "[one two]", true},
			{35, 50, "long", "1", "2", "[one two]", false},
			{40, 41, "long", "1", "2", "[one two]", false},
			{41, 99, "", "", "", "", false},
			{0, 99, "long short brief", "1", "2", "[one two]", false},
		} {
			res := r.read(between(c.from, c.to))
			if names(res) != c.names || res.Clamped || res.Limit != defaultMaxRead || len(res.Damaged) > 0 {
				t.Errorf("%d to %d: %s, want %s; %+v", c.from, c.to, names(res), c.names, res)
				continue
			}
			if c.a == "" {
				continue
			}
			d := &res.Spans[0]
			if attr(d, "a") != c.a || attr(d, "b") != c.b || events(d) != c.events || d.Running() != c.running || d.Partial || !d.Start.Equal(t0) {
				t.Errorf("%d to %d: %+v", c.from, c.to, d)
			}
		}
	})
}

// TestStraddling: a span that began before the range in the chunk that reaches into it.
// (In the reference it vanished.)
func TestStraddling(t *testing.T) {
	r, w := newTimed(t)
	s := r.Begin("s", nil)
	w.set(at(10))
	s.Event("in the range")
	s.End()
	r.flush()
	want(t, "spans", names(r.read(between(5, 20))), "s")
}

// TestFutureEvents: a record that is dated ahead is in the middle of a chunk, whose last
// one is not the latest.
func TestFutureEvents(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		s := r.Begin("s", nil)
		s.AddEvent(Event{Name: "ahead", Time: at(1000)})
		w.set(at(1))
		r.Begin("other", nil).End()
		step()
		w.set(at(2000))
		s.Event("now")
		step()
		w.set(at(2001))
		s.AddEvent(Event{Name: "in another bucket", Time: at(9000)})
		s.End()
	}, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			from, to int
			events   string
		}{
			{500, 1500, "[ahead]"}, {1500, 2001, "[ahead now]"}, {8000, 9999, "[ahead now in another bucket]"}, {1000, 1001, "[ahead]"},
		} {
			d := r.one(between(c.from, c.to))
			want(t, fmt.Sprint(c.from, " to ", c.to), events(&d), c.events)
		}
		want(t, "nothing there", names(r.read(between(5, 900))), "")
	})
}

// TestBuckets: spans that cross the hour, and what is dated back into the one before.
func TestBuckets(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		w.set(at(3590))
		s := r.Begin("s", &StartOptions{Attributes: []Attr{Int("a", 1)}})
		step()
		w.set(at(3610))
		s.AddEvent(Event{Name: "back", Time: at(3595)})
		late := r.Begin("late", &StartOptions{Time: at(3000)})
		late.AddEvent(Event{Name: "back", Time: at(3001)})
		step()
		w.set(at(3620))
		late.EndWith(at(3619), &Status{StatusError, "why"})
		s.End()
	}, func(t *testing.T, r *rig) {
		res := r.read(Query{})
		want(t, "all", sorted(res), "late s")
		for _, d := range res.Spans {
			want(t, "events of "+d.Name, events(&d), "[back]")
		}
		d := r.one(between(3590, 3600))
		if d.Name != "s" || events(&d) != "[back]" || attr(&d, "a") != "1" || !d.Running() {
			t.Errorf("before the hour: %+v", d)
		}
		res = r.read(between(3615, 3630))
		if sorted(res) != "late s" {
			t.Errorf("after the hour: %s", names(res))
		}
		for _, d := range res.Spans {
			if d.Name == "late" && (!d.Start.Equal(at(3000)) || d.Duration() != 619*time.Second || d.Status != Status{StatusError, "why"}) {
				t.Errorf("%+v", d)
			}
		}
	})
}

// TestSnapshot: a span that runs for long is read from where it was recorded whole, and
// has all of its events.
func TestSnapshot(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		s := r.Begin("s", &StartOptions{Attributes: []Attr{Int("n", 0)}})
		for i := range 20 {
			w.set(at(60 * i))
			s.SetAttributes(Int("n", int64(i)))
			s.Event(fmt.Sprint(i))
			step()
		}
		w.set(at(5000))
	}, func(t *testing.T, r *rig) {
		var snapshots int
		_, chunks, _ := r.chunks()
		for _, c := range chunks {
			for _, rec := range c.records {
				if rec.kind == kindSnapshot {
					snapshots++
				}
			}
		}
		if len(chunks) > 0 && snapshots < 3 {
			t.Errorf("%d snapshots in 20 minutes", snapshots)
		}
		d := r.one(between(1100, 1200))
		if attr(&d, "n") != "19" || len(d.Events) != 20 || d.Partial || !d.Start.Equal(t0) {
			t.Errorf("%+v", d)
		}
		q := between(1100, 1200)
		q.MaxChunks = 3
		d = r.one(q)
		if len(chunks) > 10 && (!d.Partial || len(d.Events) >= 20 || attr(&d, "n") != "19") {
			t.Errorf("of few chunks: %+v", d)
		}
	})
}

// TestLimit holds the limits of a read, and what it says about them.
func TestLimit(t *testing.T) {
	w := newWatch(t0)
	opts := quiet()
	opts.Now, opts.MaxRead = w.now, 5
	r := newRig(t, opts)
	for i := range 4 {
		w.set(at(i))
		r.Begin(fmt.Sprint("s", i), nil).End()
	}
	for _, c := range []struct {
		q       Query
		names   string
		limit   int
		clamped bool
	}{
		{Query{}, "s0 s1 s2 s3", 5, false},
		{Query{Limit: 4}, "s0 s1 s2 s3", 4, false},
		{Query{Limit: 3}, "s0 s1 s2", 3, true},
		{Query{Limit: 6}, "s0 s1 s2 s3", 5, true},
		{Query{Limit: -1}, "", 0, false},
		{Query{Start: at(1), End: at(1)}, "", 0, false},
		{Query{Start: at(2), End: at(1), Limit: 99}, "", 0, false},
		{Query{Start: at(1), End: at(3), Limit: 2}, "s1 s2", 2, false},
		{Query{Start: at(1), Limit: 2}, "s1 s2", 2, true},
		{Query{Name: "s2", Limit: 1}, "s2", 1, false},
		{Query{Status: []StatusCode{StatusUnset}, Limit: 1}, "s0", 1, true},
	} {
		for range 2 {
			res := r.read(c.q)
			if names(res) != c.names || res.Limit != c.limit || res.Clamped != c.clamped {
				t.Errorf("%+v: %s, limit %d, clamped %v", c.q, names(res), res.Limit, res.Clamped)
			}
		}
		r.flush()
	}
	for range 2 {
		r.Begin("more", nil).End()
	}
	if res := r.read(Query{}); len(res.Spans) != 5 || !res.Clamped {
		t.Errorf("%d spans, clamped %v", len(res.Spans), res.Clamped)
	}
}

// TestFilters selects by name, status, duration and anything else.
func TestFilters(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		for i := range 60 {
			w.set(at(10 * i))
			s := r.Begin([]string{"get", "put", "run"}[i%3], &StartOptions{Attributes: []Attr{Int("i", int64(i))}})
			w.pass(time.Duration(i) * 100 * time.Millisecond)
			if i%4 == 0 {
				s.SetStatus(StatusError, "no")
			}
			if i%10 != 9 {
				s.End()
			}
			if i%7 == 0 {
				step()
			}
		}
	}, func(t *testing.T, r *rig) {
		count := func(q Query, n int) {
			t.Helper()
			if res := r.read(q); len(res.Spans) != n || res.Clamped {
				t.Errorf("%+v: %d spans, want %d", q, len(res.Spans), n)
			}
		}
		count(Query{}, 60)
		count(Query{Name: "put"}, 20)
		count(Query{Status: []StatusCode{StatusError}}, 15)
		count(Query{Status: []StatusCode{StatusError, StatusUnset}}, 60)
		count(Query{MinDuration: 5 * time.Second}, 9)
		count(Query{MaxDuration: time.Second}, 9)
		count(Query{MinDuration: time.Second, MaxDuration: 2 * time.Second, Name: "get"}, 3)
		count(Query{Match: func(d *SpanData) bool { return d.Running() }}, 6)
		count(Query{Start: at(300), Name: "run", Status: []StatusCode{StatusError}}, 3)
		res := r.read(Query{Name: "get", Limit: 2})
		if len(res.Spans) != 2 || attr(&res.Spans[1], "i") != "3" || !res.Clamped {
			t.Errorf("%+v", res)
		}
		for i, d := range r.read(Query{Name: "get", MaxDuration: time.Hour, Limit: 3}).Spans {
			want(t, "the first ones", attr(&d, "i"), fmt.Sprint(3*i))
		}
	})
}

// TestDamage: chunks that can't be read are reported and skipped, whatever it is that is
// wrong with them.
func TestDamage(t *testing.T) {
	r, w := newTimed(t)
	for i := range 6 {
		w.set(at(10 * i))
		r.Begin(fmt.Sprint("s", i), nil).End()
		r.flush()
	}
	k := func(id uint32) []byte {
		return appendChunkKey(layout, nil, chunkKey{t0.Unix(), id})
	}
	must(t, r.actor.Put(ctx, k(1), []byte{1, 0, 9}))
	must(t, r.actor.Put(ctx, k(2), []byte{9, 0}))
	must(t, r.actor.Put(ctx, append(k(3), 0x15, 1), []byte("another key")))
	r.breakRows(k(4))
	res := r.read(Query{})
	want(t, "spans", names(res), "s0 s3 s5")
	var words []string
	for _, d := range res.Damaged {
		words = append(words, d.Words)
		if d.Err == nil {
			t.Errorf("%s without a reason", d.Words)
		}
	}
	if got := fmt.Sprint(words); len(words) != 4 || !strings.Contains(got, "traces/1700006400/1") {
		t.Errorf("damaged: %s", got)
	}
	if d := r.one(between(50, 60)); d.Name != "s5" {
		t.Errorf("%+v", d)
	}
	// The newest chunk is damaged: that isn't a reason not to go on, behind it.
	r.breakRows(k(5))
	r.reopen()
	r.Begin("new", nil).End()
	r.flush()
	want(t, "spans", names(r.read(Query{})), "s0 s3 new")
	want(t, "the place of the damaged one", len(r.read(Query{}).Damaged), 5)
}

// breakRows removes a row of a value behind the back of everybody.
func (r *rig) breakRows(key []byte) {
	r.t.Helper()
	breakRow(r.t, r.engine.Unwrap(), key)
}

// TestForeign goes on behind chunks of another program.
func TestForeign(t *testing.T) {
	o := quiet()
	o.Now = newWatch(t0.Add(30 * 24 * time.Hour)).now
	r := newRigOn(t, memkv.New(), o, batch.Limits{})
	vs := vectors(t, "traces-chunk.json")
	for i, v := range vs[1:] {
		var b []byte
		_, err := fmt.Sscanf(v.Hex, "%x", &b)
		must(t, err)
		must(t, r.actor.Put(ctx, appendChunkKey(layout, nil, chunkKey{t0.Unix(), uint32(i)}), b))
	}
	res := r.read(Query{})
	if len(res.Spans) != 1 || len(res.Damaged) > 0 {
		t.Fatalf("%+v", res)
	}
	d := res.Spans[0]
	if d.Name != "root" || d.Status != (Status{StatusError, "x"}) || d.Running() || len(d.Events) != 1 || attr(&d, "foo") != "bar" || attr(&d, "count") != "2" {
		t.Errorf("%+v", d)
	}
	want(t, "by its trace", len(r.read(Query{TraceID: d.TraceID}).Spans), 1)
	want(t, "by its time", len(r.read(Query{Start: t0, End: at(1)}).Spans), 1)
	// Old as they are, they are trimmed as ours are.
	n, err := r.Trim(ctx)
	must(t, err)
	if n > 1 || len(r.read(Query{}).Spans) != 0 {
		t.Errorf("%d buckets removed", n)
	}
}

// TestReadWire hands a range out as the TypeScript runtime does.
func TestReadWire(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		s := r.Begin("long", &StartOptions{Attributes: []Attr{Int("a", 1)}})
		step()
		for i := range 5 {
			w.set(at(10 * (i + 1)))
			s.Event(fmt.Sprint("e", i))
			r.Begin(fmt.Sprint("s", i), nil).End()
			step()
		}
	}, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			from, to, limit, max int
			clamped              bool
			bases, records       int
		}{
			{0, 99, 10, 10, false, 0, 1 + 5*3}, {20, 40, 10, 10, false, 1, 2 * 3}, {20, 40, 2, 2, true, 1, 2 + 2},
			{20, 40, 20_000, defaultMaxRead, true, 1, 2 * 3}, {20, 20, 10, 0, false, 0, 0}, {20, 40, 0, 0, false, 0, 0}, {60, 99, 9, 9, false, 0, 0},
		} {
			b, err := r.ReadWire(ctx, at(c.from), at(c.to), c.limit)
			must(t, err)
			w, err := parseWireRange(b)
			must(t, err)
			records := 0
			for _, k := range w.chunks {
				records += len(k.records)
			}
			if int(w.limit) != c.max || w.clamped != c.clamped || len(w.base) != c.bases || records != c.records ||
				w.start != uint64(at(c.from).UnixMilli()) || w.end != uint64(at(c.to).UnixMilli()) {
				t.Errorf("%+v: %d bases, %d records, limit %d, %v", c, len(w.base), records, w.limit, w.clamped)
			}
			for _, k := range w.base {
				if len(k.records) != 1 || k.strings[k.records[0].name] != "long" {
					t.Errorf("base %+v", k)
				}
			}
		}
	})
}

// TestReadPages reads page after page what one read has, of spans that began at one time too, while others are recorded.
func TestReadPages(t *testing.T) {
	everywhere(t, func(r *rig, w *watch, step func()) {
		for i := range 12 {
			w.set(at(i / 4))
			s := r.Begin(fmt.Sprint("s", i%3), nil)
			if w.pass(time.Duration(i) * time.Millisecond); i%5 > 0 {
				s.End()
			}
			step()
		}
	}, func(t *testing.T, r *rig) {
		for _, q := range []Query{{}, {Start: at(1)}, {Name: "s1"}, {Start: at(1), End: at(2), Match: func(d *SpanData) bool { return !d.Running() }}} {
			want := r.read(q).Spans
			var got []SpanData
			for q.Limit = 1; ; {
				res := r.read(q)
				if got = append(got, res.Spans...); !res.Clamped {
					break
				}
				after, err := ParsePosition(res.Last.String())
				must(t, err)
				if q.After = after; after != res.Last || len(got) > len(want)+1 {
					t.Fatalf("after %s: %s, %d spans of %d", res.Last, after, len(got), len(want))
				}
				if len(got) == 2 { // from here on
					r.Begin("s3", &StartOptions{Time: at(9)}).End()
				}
			}
			got = slices.DeleteFunc(got, func(d SpanData) bool { return d.Name == "s3" })
			if want = slices.DeleteFunc(want, func(d SpanData) bool { return d.Name == "s3" }); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%+v: got\n%v, want\n%v", q, got, want)
			}
		}
	})
	for _, text := range []string{"", "00", strings.Repeat("x", 48)} {
		_, err := ParsePosition(text)
		wantErr(t, text, err, ErrID)
	}
}
