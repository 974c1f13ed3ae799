package actorstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// A failing engine has snapshots that fail after a number of rows.
type failing struct {
	kv.Engine
	rows int
}

type failingSnapshot struct {
	kv.Snapshot
	f *failing
}

var errDisk = errors.New("disk")

func (f *failing) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := f.Engine.Snapshot(ctx)
	return failingSnapshot{s, f}, err
}

func (s failingSnapshot) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	if s.f.rows--; s.f.rows < 0 {
		return dst, errDisk
	}
	return s.Snapshot.Get(ctx, key, dst)
}

func (s failingSnapshot) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		for e, err := range s.Snapshot.Scan(ctx, r) {
			if s.f.rows--; s.f.rows < 0 {
				e, err = kv.Entry{}, errDisk
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// TestCheckFails: an engine that fails at any row ends the walk with its error.
func TestCheckFails(t *testing.T) {
	eng := &failing{Engine: memkv.New(), rows: math.MaxInt}
	s := plant(t, eng)
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Clear(meta("A", "00000")), kv.Clear(headOf("B"))}}))
	whole := findings(t, s.Check(ctx))
	for n := 0; ; n++ {
		eng.rows = n
		var got []string
		var failed error
		for f, err := range s.Check(ctx) {
			if failed != nil {
				t.Fatalf("after %d rows: it goes on after an error", n)
			}
			if failed = err; err == nil {
				got = append(got, f.String())
			}
		}
		if eng.rows >= 0 {
			if n < 30 || failed != nil {
				t.Errorf("%d rows, %v", n, failed)
			}
			return
		}
		if !errors.Is(failed, errDisk) || len(got) > len(whole) {
			t.Errorf("after %d rows: %v, findings %q", n, failed, got)
		}
	}
}

// TestCheckStops: a caller that saw enough is left alone.
func TestCheckStops(t *testing.T) {
	eng := memkv.New()
	s := plant(t, eng)
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{
		kv.Clear(layout.FormatKey()), kv.Clear(meta("A", "00000")), kv.Clear(data("A", "29999", 0)), kv.Set(headOf("B"), counts(1)),
		kv.Clear(nameOf("A")), kv.Set(layout.AppendRows(nil, 3), nil),
	}}))
	all := len(findings(t, s.Check(ctx)))
	for stop := range all {
		n := 0
		for range s.Check(ctx) {
			if n++; n > stop {
				break
			}
		}
		if n != stop+1 {
			t.Errorf("%d findings, want %d", n, stop+1)
		}
	}
}

func TestSurvey(t *testing.T) {
	eng := memkv.New()
	s := plant(t, eng)
	p := layout.NewPrefix(layout.ID(testActors["A"]))
	must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{
		kv.Clear(meta("A", "00001")), kv.Clear(data("A", "29999", 1)), kv.Set(append(bytes.Clone(p[:]), 5, 1, 4, '0'), nil),
	}}))
	v, err := s.View(ctx, testActors["A"])
	must(t, err)
	defer v.Close()
	if v.ID() != testActors["A"] {
		t.Errorf("the view is of %s", v.ID())
	}
	for _, c := range []struct {
		start, end []byte
		want       string
	}{
		{nil, nil, "user/00000 0, user/00001 damaged, user/10000 10000, user/10001 10001, user/29999 damaged, queue/messages/7 7"},
		{user("00001"), user("10001"), "user/00001 damaged, user/10000 10000"},
		{user("10001"), nil, "user/10001 10001, user/29999 damaged, queue/messages/7 7"},
		{user("2"), user("1"), ""},
	} {
		var got []string
		for e, err := range v.Survey(ctx, c.start, c.end) {
			switch {
			case e.Value != nil || err == nil && !e.Updated.Equal(clock()):
				t.Errorf("%s has a value, or the time %v", actorstore.Describe(e.Key), e.Updated)
			case err == nil:
				got = append(got, fmt.Sprintf("%s %d", actorstore.Describe(e.Key), e.Size))
			case errors.Is(err, actorstore.ErrCorrupt):
				got = append(got, actorstore.Describe(e.Key)+" damaged")
			default:
				t.Error(err)
			}
		}
		if list := strings.Join(got, ", "); list != c.want {
			t.Errorf("[%q, %q): got %s, want %s", c.start, c.end, list, c.want)
		}
	}
	for range v.Survey(ctx, nil, nil) {
		break
	}
}

// FuzzCheck plants a row: in the subspace of actor A, of all actors, or among the
// store's own.
func FuzzCheck(f *testing.F) {
	key := func(tail ...byte) []byte { return row("A", user("29999"), tail...)[len(layout.Prefix{}):] }
	f.Add(byte(0), layout.AppendData(key(), 1), []byte("x"))
	f.Add(byte(0), layout.AppendMetadata(key()), []byte{200, 1})
	f.Add(byte(0), []byte{5, 1, 4, 0, 0xff, 0, 1, 0}, []byte{})
	f.Add(byte(0), []byte{5, 5, 5, 0}, []byte{})
	f.Add(byte(1), []byte{0x40, 1, 0}, []byte{})
	f.Add(byte(2), headOf("A")[len(layout.AppendRows(nil, layout.KindHead))-1:], counts(5))
	f.Add(byte(2), layout.NameKey("x")[len(layout.AppendRows(nil, layout.KindHead))-2:], leads("B"))
	f.Fuzz(func(t *testing.T, where byte, suffix, value []byte) {
		eng := memkv.New()
		s := plant(t, eng)
		p := layout.NewPrefix(layout.ID(testActors["A"]))
		at := [][]byte{p[:], p[:5], layout.AppendOwn(nil)}[where%3]
		must(t, eng.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(append(at, suffix...), value)}}))
		got := findings(t, s.Check(ctx))
		if len(got) > 3 {
			t.Errorf("one row, and %d findings: %q", len(got), got)
		}
		for _, line := range got {
			if where%3 == 0 && !strings.HasPrefix(line, "actor A: ") {
				t.Errorf("what is A's is found elsewhere: %s", line)
			}
		}
		alone := findings(t, s.CheckActor(ctx, testActors["A"]))
		if where%3 == 0 && !slices.Equal(alone, got) {
			t.Errorf("alone %q, in the store %q", alone, got)
		}
	})
}
