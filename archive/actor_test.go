package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
)

// A population is a store of actors with a Writer, of which every state is remembered.
type population struct {
	*model
	store  *actorstore.Store
	actors []*actorstore.Actor
	now    []map[string]string            // what each actor has
	then   []map[uint64]map[string]string // and had behind a commit, by the number of that
	asked  map[uint64]time.Time           // before which each wasn't made
	made   map[uint64]time.Time           // and after which it was
}

func newPopulation(t *testing.T, seed uint64, n int) *population {
	b := buckettest.NewFaulty(buckettest.NewMemory(), nil)
	p := &population{model: newModel(t, seed, b), asked: map[uint64]time.Time{}, made: map[uint64]time.Time{}}
	var err error
	if p.store, err = actorstore.Open(t.Context(), p.db, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		a, err := p.store.Named(t.Context(), fmt.Sprint("actor/", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		p.actors = append(p.actors, a)
		p.now, p.then = append(p.now, map[string]string{}), append(p.then, map[uint64]map[string]string{})
	}
	t.Cleanup(func() {
		for _, a := range p.actors {
			_ = a.Close()
		}
		_ = p.store.Close()
	})
	return p
}

// write makes a random commit of a random actor.
func (p *population) write() {
	p.t.Helper()
	i := p.rnd.IntN(len(p.actors))
	var b batch.Batch
	for range 1 + p.rnd.IntN(3) {
		key := fmt.Sprintf("%02d", p.rnd.IntN(40))
		if p.rnd.IntN(5) == 0 {
			b.Delete(actorstore.UserKey([]byte(key)))
			delete(p.now[i], key)
			continue
		}
		value := bytes.Repeat([]byte{byte('a' + p.rnd.IntN(26))}, 1+p.rnd.IntN(2000))
		b.Put(actorstore.UserKey([]byte(key)), value)
		p.now[i][key] = string(value)
	}
	asked := time.Now()
	if err := p.actors[i].Apply(p.t.Context(), &b); err != nil {
		p.t.Fatal(err)
	}
	n := p.db.Records().Last()
	p.then[i][n], p.asked[n], p.made[n] = maps.Clone(p.now[i]), asked, time.Now()
}

// had returns what an actor had with a commit, nil if it didn't exist.
func (p *population) had(i int, number uint64) map[string]string {
	for ; number > 0; number-- {
		if m, ok := p.then[i][number]; ok {
			return m
		}
	}
	return nil
}

// contents reads an actor.
func contents(ctx context.Context, t *testing.T, s *actorstore.Snapshot) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range s.User().List(ctx, actorstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

// look tests what an actor had with a commit.
func (p *population) look(a *Archive, i int, mark Bookmark) {
	p.t.Helper()
	name := fmt.Sprint("actor/", i)
	got, err := a.Actor(p.t.Context(), mark, name)
	want := p.had(i, mark.Number)
	if want == nil {
		if !errors.Is(err, kv.ErrNotFound) && !errors.Is(err, actorstore.ErrUnknownActor) {
			p.t.Fatalf("%s as of %s: %v", name, mark, err)
		}
		return
	}
	if err != nil {
		p.t.Fatalf("%s as of %s: %v", name, mark, err)
	}
	defer got.Close()
	if is := contents(p.t.Context(), p.t, got.Snapshot); !maps.Equal(is, want) {
		p.t.Fatalf("%s as of %s has %d keys, want %d", name, mark, len(is), len(want))
	}
}

// TestActors tests that at random times of a random history each actor, and the whole store, is what it was.
func TestActors(t *testing.T) {
	t.Parallel()
	p := newPopulation(t, 21, testkit.Pick(10, 20, 50))
	p.opts.baseBytes, p.opts.mergeRuns = testkit.Pick(50_000, 100_000, 1_000_000), 4
	p.write()
	p.start()
	p.sync()
	begun := time.Now()
	for range testkit.Pick(500, 1000, 10_000) {
		p.write()
		if p.rnd.IntN(30) == 0 {
			p.sync()
		}
	}
	p.sync()
	a, ended := p.archive(), time.Now()
	for k := range testkit.Pick(10, 20, 200) {
		at := begun.Add(time.Duration(p.rnd.Int64N(int64(ended.Sub(begun)) + 1)))
		mark, made, err := a.At(t.Context(), at)
		if err != nil || made.After(at) {
			t.Fatalf("at %v: %v, %v", at, made, err)
		}
		// The log says it to 10 milliseconds, in whole ones.
		if is := p.asked[mark.Number]; !is.IsZero() && is.Sub(at) > 11*time.Millisecond {
			t.Errorf("at %v: %s wasn't made before %v", at, mark, is)
		}
		if next := p.made[mark.Number+1]; !next.IsZero() && next.Before(at.Add(-time.Millisecond)) {
			t.Errorf("at %v: %s, and the next one was made at %v", at, mark, next)
		}
		p.look(a, p.rnd.IntN(len(p.actors)), mark)
		if k%10 == 0 {
			whole := look(t, a, mark)
			if again := restored(t, a, mark); !maps.Equal(again, whole) {
				t.Fatalf("%s has %d rows restored, and %d read where it is", mark, len(again), len(whole))
			}
		}
	}
	if _, _, err := a.At(t.Context(), begun.Add(-time.Hour)); !errors.Is(err, ErrNoState) {
		t.Errorf("before the first state: %v", err)
	}
}

// TestActorReads tests that to read one actor takes little more of the bucket than what it has.
func TestActorReads(t *testing.T) {
	t.Parallel()
	const value = 8000
	others, own := testkit.Pick(10, 10, 990)<<20, testkit.Pick(1, 1, 10)<<20
	p := newPopulation(t, 22, 20)
	p.opts.Every = 20 * time.Millisecond
	if testkit.Long() {
		p.bucket = buckettest.NewFaulty(folder(t), nil)
	} else {
		p.opts.baseBytes = others / 10
	}
	fill := func(i, from, bytes int) {
		t.Helper()
		for n := range bytes / value {
			v := make([]byte, value)
			for k := range v {
				v[k] = byte(p.rnd.Uint32())
			}
			if err := p.actors[i].User().Put(t.Context(), fmt.Appendf(nil, "%08d", from+n), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.start()
	for round := range 10 {
		fill(0, round*own/10/value, own/10)
		for i := 1; i < len(p.actors); i++ {
			fill(i, round*others/10/value, others/10/(len(p.actors)-1))
		}
		p.sync()
	}
	if err := p.w.Settle(t.Context()); err != nil { // a base may be on its way
		t.Fatal(err)
	}
	b := p.bucket.(*buckettest.Faulty)
	all := int64(0)
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all += o.Size
	}
	a := p.archive()
	mark, _, err := a.At(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	before := b.Read()
	got, err := a.Actor(t.Context(), mark, "actor/0")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if n := len(contents(t.Context(), t, got.Snapshot)); n != 10*(own/10/value) {
		t.Errorf("it has %d keys, want %d", n, 10*(own/10/value))
	}
	read := b.Read() - before
	t.Logf("read %d bytes of %d for an actor of %d: %.1f %%", read, all, own, 100*float64(read)/float64(all))
	if most := testkit.Pick(0.25, 0.25, 0.05); float64(read) > most*float64(all) {
		t.Errorf("read %d bytes of %d", read, all)
	}
}

// TestWideCommit tests that a commit which clears the rows of several actors is read with each of them.
func TestWideCommit(t *testing.T) {
	for _, inside := range []bool{false, true} { // the range begins with the record of an actor
		p := newPopulation(t, 23, 3)
		p.write()
		p.start()
		p.sync()
		for range 200 { // more rows than are deleted one by one
			p.write()
		}
		start := []byte{0}
		if inside {
			first := slices.MinFunc(p.actors, func(a, b *actorstore.Actor) int {
				return bytes.Compare(actorstore.RowRanges(a.ID())[1].Start, actorstore.RowRanges(b.ID())[1].Start)
			}).ID()
			start = actorstore.RowRanges(first)[1].Start
		}
		before := p.db.Records().Last()
		c := &kv.Commit{ID: kv.CommitID{1}, Ops: []kv.Op{{Kind: kv.OpClearRange, Key: start, Value: []byte{0xff}}}}
		if err := p.db.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		p.sync()
		a := p.archive()
		for i := range p.actors {
			p.look(a, i, a.manifest.bookmark(1, before))
			got, err := a.Actor(t.Context(), a.manifest.bookmark(1, before+1), "id:"+p.actors[i].ID().String())
			if err == nil {
				t.Errorf("actor %d is there after all rows were cleared: %v", i, got.Close())
			}
		}
	}
}

// TestActorsOfNewStore: an actor can be read of a backup whose base is older than the store of actors, which has other rows by then, or none.
func TestActorsOfNewStore(t *testing.T) {
	for _, before := range []int{0, 1} {
		m := newModel(t, 23, buckettest.NewMemory())
		if before > 0 {
			key := tuple.Tuple{"docs", "of another package"}.Pack()
			testkit.Must(t, m.db.Commit(t.Context(), &kv.Commit{Ops: []kv.Op{kv.Set(key, []byte("row"))}, Durability: kv.Durable}))
		}
		m.start()
		testkit.Must(t, m.w.Settle(t.Context()))
		store, err := actorstore.Open(t.Context(), m.db, nil)
		testkit.Must(t, err)
		one, err := store.Named(t.Context(), "one", nil)
		testkit.Must(t, err)
		testkit.Must(t, one.User().Put(t.Context(), []byte("key"), []byte("value")))
		mark, err := m.w.Bookmark(t.Context())
		testkit.Must(t, err)
		m.sync()
		if bases, err := readBases(t.Context(), m.bucket, mark.Line); err != nil || len(bases) != 1 || bases[0].first > uint64(before) {
			t.Fatalf("the bases are %+v, %v", bases, err)
		}
		v, err := m.archive().Actor(t.Context(), mark, "one")
		testkit.Must(t, err)
		if got := contents(t.Context(), t, v.Snapshot); len(got) != 1 || got["key"] != "value" {
			t.Errorf("with %d rows before, it has %q", before, got)
		}
		testkit.Must(t, errors.Join(v.Close(), one.Close(), store.Close()))
	}
}
