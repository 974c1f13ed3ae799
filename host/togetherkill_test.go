package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// togetherAccounts are those of TestTogetherKill.
const togetherAccounts = 5

// TestTogetherKillChild is the process that is killed. It says which payments were acknowledged: the account, and how many it has made.
func TestTogetherKillChild(t *testing.T) {
	dir := os.Getenv(killEnv)
	if dir == "" {
		t.Skip("it is for TestTogetherKill to run")
	}
	engine, err := pebblekv.Open(dir, nil)
	must(t, err)
	h, err := Open(t.Context(), engine, []*Type{account()}, &Options{MaxAwake: togetherAccounts - 1, IdleTimeout: time.Millisecond, Logger: quiet})
	must(t, err)
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for i := w; ; i++ {
				n, from := 0, i%killActors
				err := Together(context.Background(), h, []Address{accountOf(fmt.Sprint(from)), accountOf(fmt.Sprint(from + 1))}, func(cs []*Context) (err error) {
					if n, err = made(cs[0]); err != nil {
						return err
					}
					n++
					amount := 1 - n%2*2 // so that no account is ever in need
					return errors.Join(bookIn(cs[0], -amount), bookIn(cs[1], amount), cs[0].Put(madeKey, strconv.AppendInt(nil, int64(n), 10)))
				})
				out.Lock()
				if err != nil {
					fmt.Fprintln(os.Stdout, "failed", err)
				} else {
					fmt.Fprintln(os.Stdout, "acked", from, n)
				}
				out.Unlock()
			}
		}()
	}
	select {} // until it is killed
}

// madeKey has how many payments an account has made.
var madeKey = []byte("made")

func made(r interface {
	Get(key []byte) ([]byte, error)
}) (n int, err error) {
	v, err := r.Get(madeKey)
	if errors.Is(err, greenroom.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}

// TestTogetherKill kills a host that pays, again and again: the sum stays right, each account has what its state and messages say, and what was
// acknowledged is there.
func TestTogetherKill(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts processes")
	}
	dir := t.TempDir()
	var acked, joined [killActors]int
	for round := range testkit.Pick(1, 2, 10) {
		killOnce(t, "TestTogetherKillChild", dir, 60, &acked, &joined)
		engine, err := pebblekv.Open(dir, nil)
		must(t, err)
		r := newRigOn(t, engine, whole(Options{}), account())
		sum := 0
		for i := range togetherAccounts {
			must(t, r.Create(r.ctx, accountOf(fmt.Sprint(i)), nil))
			sum += r.balances(fmt.Sprint(i))[0]
			must(t, r.Store().View(r.ctx, accountOf(fmt.Sprint(i)).String(), func(v *greenroom.View) error {
				if n, err := made(v); i < killActors && (err != nil || n < acked[i]) {
					t.Errorf("round %d: account %d has made %d payments, %d were acknowledged; %v", round, i, n, acked[i], err)
				}
				return nil
			}))
		}
		if sum != 100*togetherAccounts {
			t.Errorf("round %d: the sum is %d", round, sum)
		}
		r.close()
		must(t, engine.Close())
	}
}
