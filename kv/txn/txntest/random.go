package txntest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testRandom runs random scripts of transactions beside each other, with fixed seeds
// and one that is new every time. A failure prints the script, which
// kvtest.Replay runs again.
func testRandom(t *testing.T, db *txn.DB) {
	for _, seed := range []uint64{1, 2, 3, 4, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			suite.Commit(t, db.Engine(), kv.ClearRange(nil, []byte("\xff\xff\xff\xff")))
			steps := testkit.Pick(300, 700, 1500)
			if db.Engine().Limits().Far {
				steps = 300
			}
			p := suite.NewPlayer(db.Engine())
			g := &suite.Generator{Rnd: rand.New(rand.NewPCG(seed, 1)), Longs: seed%2 == 0}
			suite.Random(t, p, g.TxLine, steps)
			if exact(db) && steps > 300 && p.Conflicts < steps/100 {
				t.Errorf("only %d conflicts in %d steps", p.Conflicts, steps)
			}
		})
	}
}
