package txntest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testRandom runs random scripts of transactions beside each other, with fixed seeds
// and one that is new every time. A failure prints the script, which
// Replay runs again.
func testRandom(t *testing.T, db *txn.DB) {
	for _, seed := range []uint64{1, 2, 3, 4, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			reset(t, db)
			suite.Commit(t, db.Engine(), kv.ClearRange([]byte("\xff\xff"), []byte("\xff\xff\xff\xff")))
			steps := 1500
			if testkit.Short() || db.Engine().Limits().Far {
				steps = 300
			}
			r := newTxReplayer(db)
			defer r.close()
			g := &txGenerator{Generator: suite.Generator{Rnd: rand.New(rand.NewPCG(seed, 1)), Longs: seed%2 == 0}}
			var script strings.Builder
			for range steps {
				for line := range strings.SplitSeq(g.line(), "\n") {
					script.WriteString(line + "\n")
					if err := r.run(line); err != nil {
						t.Fatalf("%s: %v\nthe script up to there, for txntest.Replay:\n%s", line, err, script.String())
					}
				}
			}
			if exact(db) && steps > 1000 && r.conflicts < steps/100 {
				t.Errorf("only %d conflicts in %d steps", r.conflicts, steps)
			}
		})
	}
}

// A txGenerator makes random lines of a script of transactions.
type txGenerator struct {
	suite.Generator
	open []string
}

func (g *txGenerator) line() string {
	if len(g.open) == 0 || len(g.open) < 4 && g.Rnd.IntN(12) == 0 {
		g.Made++
		name := fmt.Sprintf("t%d", g.Made)
		g.open = append(g.open, name)
		// The first read pins the state, which of the others that is isn't said: some
		// can be answered by the transaction's own writes.
		return "begin " + name + "\nget " + name + " snapshot \"pin\""
	}
	i := g.Rnd.IntN(len(g.open))
	name := g.open[i]
	switch n := g.Rnd.IntN(100); {
	case n < 10:
		g.open = slices.Delete(g.open, i, i+1)
		return g.Pick("commit ", "commit ", "commit ", "commit ", "cancel ") + name
	case n < 16:
		return "engine " + g.write("")
	case n < 45:
		return g.write(" " + name)
	case n < 60:
		return fmt.Sprintf("get %s %s %s", name, g.mode(), g.Key())
	case n < 85:
		return fmt.Sprintf("scan %s %s %s %s %d %s", name, g.mode(), g.Bound(), g.Bound(),
			max(0, g.Rnd.IntN(7)-3), g.Pick("forward", "reverse"))
	}
	return fmt.Sprintf("key %s %s %s %s %d", name, g.mode(), g.Key(), g.Pick("true", "false"), g.Rnd.IntN(6)-2)
}

func (g *txGenerator) mode() string { return g.Pick("serial", "serial", "snapshot") }

// write is a write of a transaction, or, without a name, one of the engine.
func (g *txGenerator) write(name string) string {
	switch n := g.Rnd.IntN(10); {
	case n < 4 || n < 7 && name == "":
		return fmt.Sprintf("set%s %s %q", name, g.FullKey(), g.Pick("", "x", "y", "\x01\x02", "longer"))
	case n < 7:
		return fmt.Sprintf("atomic%s %s %s %q", name, txn.Mutation(g.Rnd.IntN(10)), g.FullKey(), g.Pick("", "x", "\x01", "\x01\x02"))
	case n < 9:
		return fmt.Sprintf("clear%s %s", name, g.FullKey())
	}
	return fmt.Sprintf("clearrange%s %s %s", name, g.Key(), g.FullKey())
}
