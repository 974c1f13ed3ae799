package signed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/internal/signed"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// made returns when the stored secrets were made, newest first.
func made(t testing.TB, engine kv.Engine) []time.Time {
	t.Helper()
	row, err := engine.Get(ctx, signed.RowKey, nil)
	testkit.Must(t, err)
	created, _, err := signed.ReadRow(row)
	testkit.Must(t, err)
	return created
}

// wantMade fails the test unless the stored secrets were made so long after start.
func wantMade(t testing.TB, engine kv.Engine, want ...time.Duration) {
	t.Helper()
	var got []time.Duration
	for _, at := range made(t, engine) {
		got = append(got, at.Sub(start))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("secrets made after %v, want %v", got, want)
	}
}

// move sends a request from one to another.
func move(t testing.TB, from, to *signed.Keys) {
	t.Helper()
	if err := verify(to, sent(t, from, "", statement()), ""); err != nil {
		t.Errorf("%v", err)
	}
}

func TestRotation(t *testing.T) {
	const day, ms = 24 * time.Hour, time.Millisecond
	engine, c := faultkv.New(memkv.New()), newClock()
	one, two := open(t, engine, c), open(t, engine, c)
	wantMade(t, engine, 0)
	c.pass(day)
	move(t, one, two)
	wantMade(t, engine, 0) // it isn't older than a day
	c.pass(time.Minute - ms)
	sealed := sent(t, one, "", statement()) // both have looked a moment before
	move(t, one, two)
	wantMade(t, engine, 0)
	c.pass(ms)
	move(t, one, two)
	wantMade(t, engine, day+time.Minute, 0)
	// What was signed with the one before is good as long as its time is.
	testkit.Must(t, verify(two, sealed, ""))

	first := day + time.Minute
	c.pass(day + ms)
	move(t, two, one)
	wantMade(t, engine, first+day+ms, first, 0)
	c.pass(day + ms)
	move(t, one, two)
	wantMade(t, engine, first+2*(day+ms), first+day+ms, first)

	// After a long silence the one before is kept, and no other.
	c.pass(100 * day)
	move(t, one, two)
	wantMade(t, engine, first+2*(day+ms)+100*day, first+2*(day+ms))
	if n := engine.Counts(); n.Commits != 5 || n.Durable != 5 {
		t.Errorf("%d commits, %d of them durable, want 5", n.Commits, n.Durable)
	}
}

// TestClocks lets hosts replace secrets whose clocks are wrong.
func TestClocks(t *testing.T) {
	const day = 24 * time.Hour
	engine, c, fast := memkv.New(), newClock(), newClock()
	fast.pass(3000 * day)
	one := open(t, engine, c)
	open(t, engine, fast)
	wantMade(t, engine, 3000*day, 0)
	two := open(t, engine, c)
	c.pass(time.Second)
	for range 10 {
		move(t, one, two)
		move(t, two, one)
		c.pass(day)
	}
	wantMade(t, engine, 3000*day, 0) // one of the future isn't replaced
	c.pass(-1000 * day)
	move(t, one, two)
	wantMade(t, engine, 3000*day, 0)
}

// TestOver says that a secret stops being good when every host knows its successor, also if it is still stored.
func TestOver(t *testing.T) {
	const day = 24 * time.Hour
	engine, c, slow := memkv.New(), newClock(), newClock()
	one, two := open(t, engine, c), open(t, engine, slow)
	c.pass(day + time.Second)
	move(t, one, one)
	wantMade(t, engine, day+time.Second, 0)
	for _, step := range []struct {
		after time.Duration
		want  error
	}{{day + 2*time.Minute, nil}, {time.Second, signed.ErrSignature}} {
		c.pass(step.after)
		r := sent(t, two, "", statement()) // with the first secret, by a clock that stands
		_, err := verifyAt(one, r, nil, there)
		if step.want == nil {
			step.want = signed.ErrNotMine // authentic
		}
		wantErr(t, err, step.want)
	}
}

// TestTogether lets three hosts replace the secret at the same time.
func TestTogether(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			below := memkv.New()
			var keys []*signed.Keys
			together := func(f func(i int) error) {
				var wg sync.WaitGroup
				for i := range 3 {
					wait := time.Duration(rnd.IntN(3)) * time.Millisecond
					wg.Go(func() {
						time.Sleep(wait)
						if err := f(i); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			}
			var engines []*faultkv.Engine
			for i := range 3 {
				engines, keys = append(engines, faultkv.New(below)), append(keys, nil)
				engines[i].Hook(func(op faultkv.Op) error {
					if op.Point == faultkv.BeforeCommit {
						time.Sleep(time.Millisecond) // so that others commit between
					}
					return nil
				})
			}
			together(func(i int) (err error) {
				keys[i], err = signed.Open(ctx, engines[i], nil)
				return err
			})
			if got := made(t, below); len(got) != 1 {
				t.Errorf("secrets made at %v, want 1", got)
			}
			time.Sleep(25 * time.Hour)
			together(func(i int) error {
				return keys[i].Sign(ctx, request("http://one.lan/"), nil, statement())
			})
			if got := made(t, below); len(got) != 2 {
				t.Errorf("secrets made at %v, want 2", got)
			}
			for i := range keys {
				for j := range keys {
					move(t, keys[i], keys[j])
				}
			}
			if commits := engines[0].Counts().Commits + engines[1].Counts().Commits + engines[2].Counts().Commits; commits < 2 || commits > 6 {
				t.Errorf("%d commits", commits)
			}
		})
	}
}

// TestUnknown says that a secret that isn't known is looked for at once, and once a second at most.
func TestUnknown(t *testing.T) {
	engine, c := memkv.New(), newClock()
	reads := faultkv.New(engine)
	to := open(t, reads, c)
	gets := func(want int64) {
		t.Helper()
		if n := reads.Counts(); n.Gets != want || n.Commits != 0 {
			t.Errorf("%+v, want %d gets and no commit", n, want)
		}
	}
	c.pass(24*time.Hour + time.Second)
	move(t, open(t, engine, c), to) // replaced by the other, and seen
	reads.Reset()
	// Another store's are never known, whether many come at a time or not.
	stranger := open(t, memkv.New(), c)
	c.pass(time.Second)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { wantErr(t, verify(to, sent(t, stranger, "", statement()), ""), signed.ErrSignature) })
	}
	wg.Wait()
	gets(1)
	c.pass(999 * time.Millisecond)
	wantErr(t, verify(to, sent(t, stranger, "", statement()), ""), signed.ErrSignature)
	gets(1)
	c.pass(time.Millisecond)
	wantErr(t, verify(to, sent(t, stranger, "", statement()), ""), signed.ErrSignature)
	gets(2)

	// A host with a clock that is ahead replaces the secret.
	fast := newClock()
	fast.pass(49 * time.Hour)
	open(t, engine, fast)
	from := open(t, engine, c)
	r := sent(t, from, "", statement())
	wantErr(t, verify(to, r, ""), signed.ErrSignature)
	gets(2)
	c.pass(time.Second)
	testkit.Must(t, verify(to, r, ""))
	gets(3)
	move(t, from, to)
	gets(3)
}

// TestDamaged opens rows that aren't right.
func TestDamaged(t *testing.T) {
	golden := testkit.Unhex(t, goldenRow)
	entry := golden[3:]
	row := func(n byte, entries ...[]byte) []byte {
		return append([]byte{1, 0, n}, bytes.Join(entries, nil)...)
	}
	// changed returns entry with another id, made d later.
	changed := func(id, d byte) []byte {
		b := bytes.Clone(entry)
		b[0], b[4] = id, b[4]+d
		return b
	}
	for _, test := range []struct {
		name string
		row  []byte
		want error
	}{
		{"right", golden, nil},
		{"three", row(3, changed(3, 2), changed(2, 1), entry), nil},
		{"empty", nil, kv.ErrCorrupt},
		{"version 0", append([]byte{0, 0}, golden[2:]...), kv.ErrCorrupt},
		{"version 2", append([]byte{2, 0}, golden[2:]...), kv.ErrNewerFormat},
		{"version alone", []byte{1, 0}, kv.ErrCorrupt},
		{"no secret", row(0), kv.ErrCorrupt},
		{"short", golden[:len(golden)-1], kv.ErrCorrupt},
		{"long", append(bytes.Clone(golden), 0), kv.ErrCorrupt},
		{"four", row(4, changed(4, 3), changed(3, 2), changed(2, 1), entry), kv.ErrCorrupt},
		{"one id twice", row(2, changed(entry[0], 1), entry), kv.ErrCorrupt},
		{"of one time", row(2, changed(2, 0), entry), kv.ErrCorrupt},
		{"oldest first", row(2, entry, changed(2, 1)), kv.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			engine, c := faultkv.New(memkv.New()), newClock()
			k := open(t, engine, c)
			good, err := engine.Get(ctx, signed.RowKey, nil)
			testkit.Must(t, err)
			testkit.Must(t, engine.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(signed.RowKey, test.row)}}))
			_, err = signed.Open(ctx, engine, &signed.Options{Now: c.now})
			wantErr(t, err, test.want)
			if test.want == nil {
				return
			}
			// One that was open meets it at its next look, and repairs nothing.
			r := sent(t, k, "", statement())
			c.pass(time.Minute)
			wantErr(t, k.Sign(ctx, request("http://one.lan/"), nil, statement()), test.want)
			wantErr(t, verify(k, r, ""), test.want)
			if got, err := engine.Get(ctx, signed.RowKey, nil); err != nil || !bytes.Equal(got, test.row) {
				t.Errorf("row %x, %v", got, err)
			}
			testkit.Must(t, engine.Commit(ctx, &kv.Commit{Ops: []kv.Op{kv.Set(signed.RowKey, good)}}))
			testkit.Must(t, verify(k, r, ""))
		})
	}
}

func TestOpen(t *testing.T) {
	refused := errors.New("read-only")
	engine, c := faultkv.New(memkv.New()), newClock()
	engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Err: refused})
	_, err := signed.Open(ctx, engine, &signed.Options{Now: c.now})
	wantErr(t, err, refused)
	engine.Heal()
	engine.Fail(faultkv.Rule{Point: faultkv.BeforeGet, Err: refused})
	_, err = signed.Open(ctx, engine, &signed.Options{Now: c.now})
	wantErr(t, err, refused)
	open(t, engine, c)
	engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Err: refused})
	open(t, engine, c) // a reader can sign with what others have made
	c.pass(25 * time.Hour)
	_, err = signed.Open(ctx, engine, &signed.Options{Now: c.now})
	wantErr(t, err, refused)

	for _, o := range []signed.Options{
		{Rotate: -1}, {MaxSkew: -1}, {MaxSkew: 1}, {Rotate: time.Minute}, {MaxSkew: 13 * time.Hour}, {MaxSkew: 25 * time.Hour, Rotate: 300 * time.Hour},
		{Rotate: 9000 * time.Hour},
	} {
		_, err := signed.Open(ctx, engine, &o)
		wantErr(t, err, signed.ErrOptions)
	}
}

// TestRefused says what happens while the engine refuses the commit of a new secret, or doesn't say what became of it.
func TestRefused(t *testing.T) {
	full := errors.New("no space")
	engine, c := faultkv.New(memkv.New()), newClock()
	told := 0
	k, err := signed.Open(ctx, engine, &signed.Options{Now: c.now, NotRotated: func(err error) {
		wantErr(t, err, full)
		told++
	}})
	testkit.Must(t, err)
	engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Times: faultkv.Forever, Err: full})
	c.pass(25 * time.Hour)
	for range 3 {
		move(t, k, k)
		move(t, k, k)
		c.pass(time.Minute)
	}
	wantMade(t, engine, 0)
	if told != 3 {
		t.Errorf("told %d times, want 3: once for each look", told)
	}
	engine.Heal()
	move(t, k, k)
	wantMade(t, engine, 25*time.Hour+3*time.Minute, 0)

	for _, rule := range []faultkv.Rule{{Point: faultkv.BeforeCommit}, {Point: faultkv.AfterApply}} {
		c.pass(25 * time.Hour)
		rule.Err = kv.ErrUnknownOutcome
		fault := engine.Fail(rule)
		n := made(t, engine)[0]
		move(t, k, k)
		if got := made(t, engine); fault.Hits() != 1 || !got[0].Equal(c.now()) || !got[1].Equal(n) {
			t.Errorf("%d hits, secrets made at %v", fault.Hits(), got)
		}
	}
}

// TestFailover takes back a secret that hosts have read already.
func TestFailover(t *testing.T) {
	server, c := faultkv.NewServer(memkv.New), newClock()
	open(t, server, c)
	c.pass(25 * time.Hour)
	one, two := open(t, server, c), open(t, server, c)
	wantMade(t, server, 25*time.Hour, 0)
	server.Failover(1)
	wantMade(t, server, 0)
	c.pass(time.Second)
	move(t, one, two)
	move(t, two, one)
	wantMade(t, server, 25*time.Hour+time.Second, 0)
}

// TestCancelled gives up a wait for another goroutine's read.
func TestCancelled(t *testing.T) {
	engine, c := faultkv.New(memkv.New()), newClock()
	k := open(t, engine, c)
	c.pass(time.Minute)
	pause := engine.Pause(faultkv.Rule{Point: faultkv.BeforeGet})
	done := make(chan error, 1)
	go func() { done <- k.Sign(ctx, request("http://one.lan/"), nil, statement()) }()
	<-pause.Reached()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	wantErr(t, k.Sign(gone, request("http://one.lan/"), nil, statement()), context.Canceled)
	pause.Release()
	testkit.Must(t, <-done)
	move(t, k, k)
}
