//go:build unix

package host

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// TestTogetherPostgres: many pay among many accounts in PostgreSQL, some with too little, while others read all balances at one moment: the sum is right in each.
func TestTogetherPostgres(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts a server")
	}
	t.Parallel() // it waits for the server
	accounts, payers, looks := testkit.Pick(0, 24, 200), testkit.Pick(0, 16, 64), testkit.Pick(0, 3, 4)
	n := pgtest.Shared(t)
	db, err := pgkv.Open(t.Context(), n.URL("schema="+url.QueryEscape(n.Schema())), nil)
	must(t, err)
	r := newRigOn(t, db, whole(Options{}), account())
	keys := make([]string, accounts)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
		must(t, r.Create(r.ctx, accountOf(keys[i]), nil))
	}
	var all sync.WaitGroup
	var enough atomic.Bool
	for w := range payers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for !enough.Load() {
				at := random.Perm(accounts)
				p := payment{To: []string{keys[at[1]]}, Amount: random.IntN(60)}
				if random.IntN(2) == 0 {
					p.To = append(p.To, keys[at[2]])
				}
				_, _ = r.pay(keys[at[0]], p)
			}
		})
	}
	for moved := 0; looks > 0 || moved < accounts/2; looks-- {
		sum := 0
		moved = 0
		for _, balance := range r.balances(keys...) {
			if sum += balance; balance != 100 {
				moved++
			}
		}
		if sum != 100*accounts || looks < -100 {
			t.Errorf("the sum is %d, and %d balances have changed", sum, moved)
			break
		}
	}
	enough.Store(true)
	all.Wait()
	r.close()
	must(t, db.Close())
}
