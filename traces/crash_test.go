package traces

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// TestCrash stops a script of everything after every commit. What a Flush has acknowledged
// by then is there, once; ids go on; and spans that were open are closed or go on.
func TestCrash(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		t.Run(fmt.Sprint("adopt ", adopt), func(t *testing.T) {
			tp := engines.NewTape()
			w := newWatch(t0)
			opts := quiet()
			opts.Now, opts.MaxAge, opts.Adopt = w.now, -1, adopt
			r := newRigOn(t, tp, opts, batch.Limits{})
			type acked struct{ commits, spans, events int }
			acks := []acked{{tp.Len(), 0, 0}}
			long := r.Begin("long", &StartOptions{Attributes: []Attr{Int("n", -1)}})
			for i := range 8 {
				w.set(at(i * 900))
				long.SetAttributes(Int("n", int64(i)))
				long.Event(fmt.Sprint(i))
				child := r.Begin(fmt.Sprint("child", i), &StartOptions{Parent: long})
				if i%2 == 0 {
					child.End()
				}
				if i%3 == 1 {
					var b batch.Batch
					must(t, r.In(&b).Flush(ctx))
					must(t, r.actor.Commit(ctx, &b))
				}
				r.flush()
				acks = append(acks, acked{tp.Len(), i + 2, i + 1})
			}
			long.End()
			r.flush()
			r.crash()
			for n := range tp.Len() + 1 {
				last := acked{}
				for _, a := range acks {
					if a.commits <= n {
						last = a
					}
				}
				crashed(t, tp.At(t, n), opts, n, last.spans, last.events)
			}
		})
	}
}

// crashed opens what a crash after commit n has left, twice.
func crashed(t *testing.T, tp *engines.Tape, opts Options, n, spans, marks int) {
	t.Helper()
	where := fmt.Sprint("after commit ", n)
	r := newRigOn(t, tp, opts, batch.Limits{})
	defer r.close()
	open := 0
	for range 2 {
		res := r.read(Query{})
		if len(res.Spans) < spans || len(res.Damaged) > 0 {
			t.Errorf("%s: %s, want %d spans", where, names(res), spans)
		}
		open = 0
		for _, d := range res.Spans {
			if d.Running() {
				open++
			}
			if d.Name == "long" {
				if len(d.Events) < marks || d.Partial || d.Running() && !opts.Adopt {
					t.Errorf("%s: %+v", where, d)
				}
				for i, e := range d.Events { // none is there twice
					want(t, where, e.Name, fmt.Sprint(i))
				}
			}
		}
		if !opts.Adopt && open > 0 || opts.Adopt && open != len(r.Adopted()) {
			t.Errorf("%s: %d spans are open, %d were adopted", where, open, len(r.Adopted()))
		}
		// What is recorded now doesn't overwrite anything.
		for _, s := range r.Adopted() {
			s.SetStatus(StatusOK, "adopted")
		}
		r.Begin("new", nil).End()
		r.flush()
		r.verify(where)
		want(t, where, len(r.read(Query{Name: "new"}).Spans) >= 1, true)
		spans++
		r.crash()
		r.open()
	}
	for _, s := range r.Adopted() {
		s.End()
	}
	r.reopen()
	for _, d := range r.read(Query{}).Spans {
		if d.Running() {
			t.Errorf("%s: %s is open at last", where, d.Name)
		}
	}
}

// TestLeftOpen: spans that were open when their host died end as such at the last sign of
// life, once; or go on with all that they had.
func TestLeftOpen(t *testing.T) {
	w := newWatch(t0)
	opts := quiet()
	opts.Now, opts.MaxAge = w.now, -1
	r := newRig(t, opts)
	root := r.Begin("root", &StartOptions{Attributes: []Attr{Int("a", 1)}, Kind: KindServer, Scope: Scope{Name: "lib"}})
	w.set(at(10))
	child := r.Begin("child", &StartOptions{Parent: root})
	child.Event("e")
	r.Begin("ended", &StartOptions{Parent: root}).End()
	r.flush()
	w.set(at(20))
	root.SetAttributes(Int("b", 2))
	r.flush()
	root.Event("lost")
	r.crash()
	w.set(at(5000))
	r.open()
	for range 2 {
		res := r.read(Query{})
		want(t, "spans", sorted(res), "child ended root")
		for _, d := range res.Spans {
			end, status := at(20), Status{StatusError, "actor terminated"}
			if d.Name == "ended" {
				end, status = at(10), Status{}
			}
			if !d.End.Equal(end) || d.Status != status {
				t.Errorf("%+v", d)
			}
		}
		want(t, "by trace", len(r.read(Query{TraceID: root.TraceID(), Status: []StatusCode{StatusError}}).Spans), 2)
		r.reopen()
	}
	want(t, "active", r.Stats().Active, 0)
	want(t, "chunks", r.Stats().Chunks, 0)

	// Now with Adopt.
	r.opts.Adopt = true
	s := r.Begin("goes on", &StartOptions{Attributes: []Attr{Int("a", 1)}, Scope: Scope{Name: "lib"}, Flags: 1})
	s.Event("before")
	r.flush()
	s.SetAttributes(Int("b", 2))
	r.flush()
	r.crash()
	w.set(at(9999))
	r.open()
	adopted := r.Adopted()
	if len(adopted) != 1 || !adopted[0].Active() || adopted[0].SpanID() != s.SpanID() || adopted[0].TraceID() != s.TraceID() {
		t.Fatalf("%v", adopted)
	}
	d := adopted[0].data()
	if attr(&d, "a") != "1" || attr(&d, "b") != "2" || d.Scope.Name != "lib" || d.Flags != 1 || !d.Start.Equal(at(5000)) {
		t.Errorf("%+v", d)
	}
	adopted[0].Event("after")
	adopted[0].End()
	r.flush()
	got := r.read(Query{Name: "goes on"}).Spans[0]
	if events(&got) != "[before after]" || !got.End.Equal(at(9999)) || got.Status != (Status{}) {
		t.Errorf("%+v", got)
	}
	r.reopen()
	want(t, "adopted", len(r.Adopted()), 0)
	r.verify("adopted")
}

// TestIDsGoOn: chunks of a bucket have new ids after a restart. (In the reference they
// began anew, and only the second of two spans survived.)
func TestIDsGoOn(t *testing.T) {
	r := newRig(t, quiet())
	for _, name := range []string{"first", "second", "third"} {
		r.Begin(name, nil).End()
		r.flush()
		r.crash()
		r.open()
	}
	want(t, "spans", names(r.read(Query{})), "first second third")
	keys, _, _ := r.chunks()
	for i, k := range keys {
		if i > 0 && keys[i-1].bucket == k.bucket && k.id != keys[i-1].id+1 {
			t.Errorf("keys %v", keys)
		}
	}
}

// TestEveryOperationFails fails each operation of the engine once, in each way there is,
// and goes on, with another handle if this one is of no use any more. What a Flush has
// acknowledged is there, once.
func TestEveryOperationFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		point faultkv.Point
		err   error
	}{
		{"commit refused", faultkv.BeforeCommit, kv.ErrTooLarge},
		{"commit broken", faultkv.BeforeCommit, errDisk},
		{"commit in doubt", faultkv.AfterApply, kv.ErrUnknownOutcome},
		{"commit applied and not durable", faultkv.AfterCommit, errDisk},
		{"get", faultkv.BeforeGet, errDisk},
		{"scan", faultkv.BeforeScan, errDisk},
		{"entry", faultkv.BeforeEntry, errDisk},
		{"snapshot", faultkv.BeforeSnapshot, errDisk},
		{"sync", faultkv.BeforeSync, errDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			hit := 0
			for n := 0; ; n++ {
				if !failing(t, faultkv.Rule{Point: c.point, Skip: n, Err: c.err}) {
					break
				}
				hit++
			}
			if hit == 0 {
				t.Error("there is no such operation")
			}
		})
	}
}

var errDisk = fmt.Errorf("the disk is broken")

// failing runs a script with one fault, and reports whether it was met.
func failing(t *testing.T, rule faultkv.Rule) bool {
	t.Helper()
	opts := quiet()
	w := newWatch(t0)
	opts.Now, opts.MaxAge = w.now, -1
	r := newRig(t, opts)
	defer r.close()
	f := r.engine.Fail(rule)
	acked, unsure := map[string]bool{}, map[string]bool{}
	for i := range 6 {
		name := fmt.Sprint("s", i)
		w.set(at(1800 * i))
		if i == 2 || i == 4 || r.Stats().LastWriteError != nil || r.actor.Err() != nil {
			r.crash()
			if r.tryOpen() != nil {
				r.crash()
				f.Remove()
				r.open()
			}
		}
		s := r.Begin(name, nil)
		s.Event(name)
		s.End()
		unsure[name] = true
		if i == 3 {
			var b batch.Batch
			if r.In(&b).Flush(ctx) == nil && r.actor.Commit(ctx, &b) == nil {
				acked[name] = true
			}
		}
		if r.Flush(ctx) == nil {
			acked[name] = true
		}
		if res, err := r.Read(ctx, Query{Name: name}); err == nil && len(res.Spans) != 1 {
			t.Errorf("%d of %d: %s is there %d times", rule.Skip, rule.Point, name, len(res.Spans))
		}
	}
	met := f.Hits() > 0
	f.Remove()
	for range 2 {
		r.crash()
		r.open()
		seen := map[string]int{}
		for _, d := range r.read(Query{}).Spans {
			seen[d.Name]++
			if events(&d) != "["+d.Name+"]" || d.Running() || !unsure[d.Name] {
				t.Errorf("%d of %d: %+v", rule.Skip, rule.Point, d)
			}
		}
		for name := range acked {
			if seen[name] != 1 {
				t.Errorf("%d of %d: %s is there %d times, and was acknowledged", rule.Skip, rule.Point, name, seen[name])
			}
		}
		if len(acked) < 4 {
			t.Errorf("%d of %d: %d of 6 were acknowledged", rule.Skip, rule.Point, len(acked))
		}
		r.verify(fmt.Sprint(rule.Skip, " of ", rule.Point))
	}
	return met
}

// TestWriterAlone: without a flush, the engine fails now and then, and everything gets there.
func TestWriterAlone(t *testing.T) {
	opts := Options{ChunkAge: time.Millisecond, MaxBackoff: time.Millisecond}
	r := newRigFull(t, opts)
	for i := range 20 {
		r.full(i%2 == 0)
		r.Begin(fmt.Sprint("s", i), nil).End()
	}
	r.full(false)
	for r.Stats().Pending > 0 || len(r.read(Query{}).Spans) < 20 {
		r.flush()
	}
	r.verify("alone")
}

// TestNewestChunk: what spans ran is in the chunk that was cut last, which isn't the last by
// key when something was dated back.
func TestNewestChunk(t *testing.T) {
	r, w := newTimed(t)
	w.set(at(3590))
	s := r.Begin("s", nil)
	w.set(at(3610))
	r.Begin("t", nil)
	r.flush()
	s.EndWith(at(3595), nil)
	r.flush()
	r.crash()
	r.open()
	for _, d := range r.read(Query{}).Spans {
		if d.Running() || (d.Status.Code == StatusError) != (d.Name == "t") || d.Name == "s" && !d.End.Equal(at(3595)) {
			t.Errorf("%+v", d)
		}
	}
	r.flush()
	ends := 0
	_, chunks, _ := r.chunks()
	for _, c := range chunks {
		for _, rec := range c.records {
			if rec.kind == kindEnd {
				ends++
			}
		}
	}
	want(t, "ends", ends, 2)
}
