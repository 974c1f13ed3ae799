package check_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/check"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

var (
	id  = layout.ID{UUID: [16]byte{1}}
	key = func(part int64) []byte { return layout.RecordKey(id, part) }
)

// A counting reader counts the calls.
type counting struct {
	kv.Reader
	reads int
}

func (c *counting) Get(ctx context.Context, key, dst []byte) ([]byte, error) {
	c.reads++
	return c.Reader.Get(ctx, key, dst)
}

func (c *counting) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	c.reads++
	return c.Reader.Scan(ctx, r)
}

// TestRun plants what the tests of package actorstore don't. one is what is found if only the actor is checked.
// A check that the consumer stops reads nothing more.
func TestRun(t *testing.T) {
	head := kv.Set(key(layout.PartHead), (&layout.Head{Seq: 1}).Append(nil))
	wake := func(at int64) kv.Op {
		return kv.Set(key(layout.PartWake), (&layout.Wake{Look: at, At: at}).Append(nil))
	}
	index := func(look int64, w layout.Waking) kv.Op { return kv.Set(layout.WakeKey(look, id), w.Append(nil)) }
	note := func(key string) kv.Op { return kv.Set(layout.AppendNoteKey(nil, id, []byte(key)), nil) }
	const woken = "time to be woken: "
	for name, tt := range map[string]struct {
		ops      []kv.Op
		all, one []string
	}{
		"layout without a head": {[]kv.Op{kv.Set(key(layout.PartLayout), layout.AppendLayout(nil, 1)), note("a")},
			[]string{"layout: the actor has a layout and no head", "notes: they are those of an actor without a head"}, nil},
		"too many notes": {[]kv.Op{head, note("a"), note("b"), note("c"), note("d")}, []string{"notes: there are more than 2"}, nil},
		"wakes":          {[]kv.Op{head, wake(5), index(5, layout.Waking{At: 5})}, []string{}, nil},
		"wake without a head": {[]kv.Op{wake(5), index(5, layout.Waking{At: 5}), note("a")},
			[]string{woken + "it is that of an actor that doesn't exist", "notes: they are those of an actor without a head"}, nil},
		"wake of another time": {[]kv.Op{head, wake(5), index(5, layout.Waking{At: 6})},
			[]string{woken + "the index of the store says another one"}, nil},
		"wake of other versions": {[]kv.Op{head, wake(5), index(5, layout.Waking{At: 5, Tried: []uint64{1}})},
			[]string{woken + "the index of the store says another one"}, nil},
		"wake of no time and no version": {[]kv.Op{head, wake(layout.NeverAt), index(layout.NeverAt, layout.Waking{At: layout.NeverAt})},
			[]string{woken + "the index of the store says another one"}, nil},
		"wake of another name": {[]kv.Op{head, wake(5), index(5, layout.Waking{At: 5, Name: "n"})},
			[]string{woken + `the index has it for "n"`}, nil},
		"wake whose row of the index is newer": {[]kv.Op{head, wake(5), kv.Set(layout.WakeKey(5, id), []byte{9, 0})},
			[]string{fmt.Sprintf("row %x: it is of version 9, known are versions up to 1", layout.WakeKey(5, id))},
			[]string{woken + "the row of the index: it is of version 9, known are versions up to 1"}},
	} {
		eng := memkv.New()
		ops := append(tt.ops, kv.Set(layout.FormatKey(), layout.AppendFormat(nil, 0)))
		if err := eng.Commit(t.Context(), &kv.Commit{Ops: ops}); err != nil {
			t.Fatal(err)
		}
		if tt.one == nil {
			tt.one = tt.all
		}
		for only, want := range map[*layout.ID][]string{nil: tt.all, &id: tt.one} {
			var got []string
			state := &check.State{Src: eng, Only: only, MaxNotes: 2, MaxNoteKey: 1}
			err := check.Run(t.Context(), state, func(f check.Finding) bool {
				got = append(got, f.Where+": "+f.What)
				return f.Actor == id
			})
			if !slices.Equal(got, want) || err != nil {
				t.Errorf("%s, only %v: %v, got\n\t%s\nwant\n\t%s", name, only, err, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
			src := &counting{Reader: eng}
			state.Src = src
			reads := 0 // when the first finding came
			if err := check.Run(t.Context(), state, func(check.Finding) bool { reads = src.reads; return false }); err != nil {
				t.Errorf("%s, only %v, stopped: %v", name, only, err)
			}
			if len(want) > 0 && reads != src.reads {
				t.Errorf("%s, only %v: %d reads after the consumer stopped", name, only, src.reads-reads)
			}
		}
	}
}

// TestSurveyError: the error of the rows ends a survey, and the key in the middle of which it comes isn't yielded.
func TestSurveyError(t *testing.T) {
	p, disk := layout.NewPrefix(id), errors.New("disk")
	rows := func(yield func(kv.Entry, error) bool) {
		_ = yield(kv.Entry{Key: layout.AppendMetadata(p.AppendBase(nil, []byte("a"))), Value: layout.AppendMetadataValue(nil, "1", 1)}, nil) &&
			yield(kv.Entry{Key: layout.AppendData(p.AppendBase(nil, []byte("b")), 0), Value: []byte("x")}, nil) &&
			yield(kv.Entry{}, disk)
	}
	var got []string
	for k, err := range check.Survey(&p, rows) {
		if k != nil {
			got = append(got, string(k.Key)+k.Fault)
		} else if err == disk {
			got = append(got, err.Error())
		}
	}
	if !slices.Equal(got, []string{"a", "disk"}) {
		t.Errorf("got %q", got)
	}
}
