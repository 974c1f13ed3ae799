package kvtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testTxRandom runs random scripts of transactions beside each other, with fixed seeds
// and one that is new every time. A failure prints the script, which
// ReplayTransactions runs again.
func testTxRandom(t *testing.T, db *txn.DB) {
	for _, seed := range []uint64{1, 2, 3, 4, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			reset(t, db)
			commit(t, db.Engine(), kv.ClearRange([]byte("\xff\xff"), []byte("\xff\xff\xff\xff")))
			steps := 1500
			if testkit.Short() || db.Engine().Limits().Far {
				steps = 300
			}
			r := newTxReplayer(db)
			defer r.close()
			g := &txGenerator{generator: generator{rnd: rand.New(rand.NewPCG(seed, 1)), longs: seed%2 == 0}}
			var script strings.Builder
			for range steps {
				for line := range strings.SplitSeq(g.line(), "\n") {
					script.WriteString(line + "\n")
					if err := r.run(line); err != nil {
						t.Fatalf("%s: %v\nthe script up to there, for kvtest.ReplayTransactions:\n%s", line, err, script.String())
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
	generator
	open []string
}

func (g *txGenerator) line() string {
	if len(g.open) == 0 || len(g.open) < 4 && g.rnd.IntN(12) == 0 {
		g.made++
		name := fmt.Sprintf("t%d", g.made)
		g.open = append(g.open, name)
		// The first read pins the state, which of the others that is isn't said: some
		// can be answered by the transaction's own writes.
		return "begin " + name + "\nget " + name + " snapshot \"pin\""
	}
	i := g.rnd.IntN(len(g.open))
	name := g.open[i]
	switch n := g.rnd.IntN(100); {
	case n < 10:
		g.open = slices.Delete(g.open, i, i+1)
		return g.pick("commit ", "commit ", "commit ", "commit ", "cancel ") + name
	case n < 16:
		return "engine " + g.write("")
	case n < 45:
		return g.write(" " + name)
	case n < 60:
		return fmt.Sprintf("get %s %s %s", name, g.mode(), g.key())
	case n < 85:
		return fmt.Sprintf("scan %s %s %s %s %d %s", name, g.mode(), g.bound(), g.bound(),
			max(0, g.rnd.IntN(7)-3), g.pick("forward", "reverse"))
	}
	return fmt.Sprintf("key %s %s %s %s %d", name, g.mode(), g.key(), g.pick("true", "false"), g.rnd.IntN(6)-2)
}

func (g *txGenerator) mode() string { return g.pick("serial", "serial", "snapshot") }

// write is a write of a transaction, or, without a name, one of the engine.
func (g *txGenerator) write(name string) string {
	switch n := g.rnd.IntN(10); {
	case n < 4 || n < 7 && name == "":
		return fmt.Sprintf("set%s %s %q", name, g.fullKey(), g.pick("", "x", "y", "\x01\x02", "longer"))
	case n < 7:
		return fmt.Sprintf("atomic%s %s %s %q", name, txn.Mutation(g.rnd.IntN(10)), g.fullKey(), g.pick("", "x", "\x01", "\x01\x02"))
	case n < 9:
		return fmt.Sprintf("clear%s %s", name, g.fullKey())
	}
	return fmt.Sprintf("clearrange%s %s %s", name, g.key(), g.fullKey())
}
