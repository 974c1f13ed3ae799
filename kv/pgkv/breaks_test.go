//go:build unix

package pgkv

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// Wherever a connection breaks, from the server's greeting to its last answer, no caller sees
// an error, and a commit lands once.
func TestBreaksAnywhere(t *testing.T) {
	t.Parallel()
	p, through := pgtest.NewProxy(t, newURL(t))
	db := openAt(t, through, nil)
	step := testkit.Pick(307, 197, 41)
	first := rand.IntN(step) // other places in each run
	t.Logf("after %d bytes, and %d more each time", first, step)
	if err := db.Commit(ctx, &kv.Commit{Ops: []kv.Op{set("n", "0")}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range []struct {
		name string
		of   *pool
		do   func() error
	}{
		{"commit", db.writes, func() error {
			defer wantGet(t, db, "n", strconv.Itoa(n+1))
			n++
			return increment(db, 0, n)
		}},
		{"get", db.reads, func() error { _, err := db.Get(ctx, []byte("n"), nil); return err }},
		{"scan", db.reads, func() (err error) {
			for _, err = range db.Scan(ctx, kv.Range{}) {
			}
			return err
		}},
		{"snapshot", db.pins, func() error {
			s, err := db.Snapshot(ctx)
			if err != nil {
				return err
			}
			return s.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := first
			for broke := true; broke; at += step {
				c.of.drop(time.Now().Add(time.Hour))
				broken := p.CutAfter(at)
				if err := c.do(); err != nil {
					t.Fatalf("broken after %d bytes: %v", at, err)
				}
				broke = broken()
			}
			if at < 1000 {
				t.Errorf("a connection and its statements were %d bytes", at)
			}
		})
	}
}
