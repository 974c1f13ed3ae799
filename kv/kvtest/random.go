package kvtest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// Replay runs a script that a random test of this package, or of kv/txn/txntest, has printed on a new engine, and
// returns an error that names the first line that goes wrong.
func Replay(eng kv.Engine, script string) error { return suite.Replay(eng, script) }

// testRandom runs random scripts, with fixed seeds and one that is new every
// time. A failure prints the script, which Replay runs again.
func testRandom(t *testing.T, open suite.Opener) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			eng := suite.Start(t, open)
			steps := testkit.Pick(300, 700, 1500)
			if eng.Limits().Far {
				steps = testkit.Pick(300, 300, 1500)
			}
			p := suite.NewPlayer(eng)
			g := &suite.Generator{Rnd: rand.New(rand.NewPCG(seed, 0))}
			suite.Random(t, p, g.EngineLine, steps)
		})
	}
}
