package signed_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/signed"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestReplay(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to, other := open(t, engine, c), open(t, engine, c), open(t, engine, c)
	r := sent(t, from, "", statement())
	testkit.Must(t, verify(to, r, ""))
	wantErr(t, verify(to, r, ""), signed.ErrReplayed)
	// Another receiver has another memory: a request is for one of them.
	_, err := verifyAt(other, r, nil, there)
	wantErr(t, err, signed.ErrNotMine)
	r = sent(t, from, "", &signed.Statement{To: there, Hop: 1})
	_, err = verifyAt(other, r, nil, there)
	testkit.Must(t, err)
	wantErr(t, verify(to, r, ""), signed.ErrNotMine)
}

// TestWindow sends counters in a random order, and compares with a set.
func TestWindow(t *testing.T) {
	engine, c := memkv.New(), newClock()
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		from, to := open(t, engine, c), open(t, engine, c)
		top := 1 + rnd.Uint64N(1<<40)
		taken := map[uint64]bool{top: true}
		from.Skip(top)
		testkit.Must(t, verify(to, sent(t, from, "", statement()), ""))
		for range 3000 {
			var next uint64
			switch rnd.IntN(10) {
			case 0: // far ahead
				next = top + rnd.Uint64N(3*signed.WindowSize)
			case 1: // the edges of the window
				next = top - min(top, signed.WindowSize-2+rnd.Uint64N(4))
			case 2, 3, 4, 5, 6:
				next = top + 1 + rnd.Uint64N(70)
			default:
				next = top - min(top, rnd.Uint64N(200))
			}
			next = max(next, 1)
			from.Skip(next)
			err := verify(to, sent(t, from, "", statement()), "")
			switch {
			case taken[next] || top >= signed.WindowSize && next <= top-signed.WindowSize:
				wantErr(t, err, signed.ErrReplayed)
			case err != nil:
				t.Fatalf("seed %d: counter %d with top %d: %v", seed, next, top, err)
			default:
				taken[next], top = true, max(top, next)
			}
		}
	}
}

func session(i int) (s [16]byte) {
	binary.LittleEndian.PutUint64(s[:], uint64(i+1))
	return s
}

func TestSessions(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to := open(t, engine, c), open(t, engine, c)
	var first []*http.Request
	for i := range signed.MostSessions {
		r := sent(t, from.As(session(i)), "", statement())
		testkit.Must(t, verify(to, r, ""))
		first = append(first, r)
		c.pass(time.Millisecond)
	}
	// One more is too many until the first is silent for two minutes. It takes nothing of the others.
	r := sent(t, from, "", statement())
	wantErr(t, verify(to, r, ""), signed.ErrBusy)
	for _, r := range first {
		wantErr(t, verify(to, r, ""), signed.ErrReplayed)
	}
	busy := from.As(session(0))
	busy.Skip(2)
	testkit.Must(t, verify(to, sent(t, busy, "", statement()), "")) // the first isn't the one unused for longest any more
	c.pass(2*time.Minute - (signed.MostSessions-1)*time.Millisecond)
	wantErr(t, verify(to, sent(t, from, "", statement()), ""), signed.ErrBusy)
	c.pass(time.Millisecond)
	testkit.Must(t, verify(to, sent(t, from, "", statement()), ""))
	if n := to.Sessions(); n != signed.MostSessions {
		t.Errorf("%d sessions, want %d", n, signed.MostSessions)
	}
	c.pass(time.Hour)
	testkit.Must(t, verify(to, sent(t, from, "", statement()), ""))
	if n := to.Sessions(); n != 1 {
		t.Errorf("%d sessions after an hour, want 1", n)
	}
}

// TestSetBack replays requests of sessions that are forgotten, to a receiver whose clock was set back.
func TestSetBack(t *testing.T) {
	engine, c := memkv.New(), newClock()
	from, to, third := open(t, engine, c), open(t, engine, c), open(t, engine, c)
	r, again := sent(t, from, "", statement()), sent(t, from, "", statement())
	testkit.Must(t, verify(to, r, ""))
	c.pass(3 * time.Minute)
	testkit.Must(t, verify(to, sent(t, third, "", statement()), ""))
	if n := to.Sessions(); n != 1 {
		t.Fatalf("%d sessions, want 1", n)
	}
	wantErr(t, verify(to, r, ""), signed.ErrSkew)
	c.pass(-3 * time.Minute)
	wantErr(t, verify(to, r, ""), signed.ErrSkew)
	wantErr(t, verify(to, again, ""), signed.ErrSkew) // it can't be told from the one that was taken
	c.pass(time.Millisecond)
	testkit.Must(t, verify(to, sent(t, third, "", statement()), ""))
	testkit.Must(t, verify(to, sent(t, from, "", statement()), ""))
	wantErr(t, verify(to, r, ""), signed.ErrSkew) // also if the session is known again
}

// TestModel sends, repeats and delays requests while the clock moves in both directions: none is taken twice.
func TestModel(t *testing.T) {
	for seed := range uint64(testkit.Pick(5, 20, 500)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		engine, c := memkv.New(), newClock()
		var senders []*signed.Keys
		for range 4 {
			senders = append(senders, open(t, engine, c))
		}
		to := open(t, engine, c)
		var all []*http.Request
		taken, count := map[*http.Request]bool{}, 0
		for range 600 {
			if rnd.IntN(3) == 0 {
				c.pass(time.Duration(rnd.IntN(100_000)-30_000) * time.Millisecond)
			}
			if len(all) == 0 || rnd.IntN(2) == 0 {
				all = append(all, sent(t, senders[rnd.IntN(len(senders))], "", statement()))
			}
			r := all[max(0, len(all)-1-rnd.IntN(20))]
			switch err := verify(to, r, ""); {
			case err == nil && taken[r]:
				t.Fatalf("seed %d: a request was taken twice", seed)
			case err == nil:
				taken[r] = true
				count++
			case !errors.Is(err, signed.ErrSkew) && !(taken[r] && errors.Is(err, signed.ErrReplayed)):
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if count < 50 {
			t.Errorf("seed %d: %d requests were taken", seed, count)
		}
	}
}
