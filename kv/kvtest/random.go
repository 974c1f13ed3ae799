package kvtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// testRandom runs random scripts, with fixed seeds and one that is new every
// time. A failure prints the script, which Replay runs again.
func testRandom(t *testing.T, open suite.Opener) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			eng := suite.Start(t, open)
			steps := testkit.Pick(300, 1500, 1500)
			if eng.Limits().Far {
				steps = testkit.Pick(300, 300, 1500)
			}
			r := newReplayer(eng)
			g := &scriptGenerator{Generator: suite.Generator{Rnd: rand.New(rand.NewPCG(seed, 0))}}
			var script strings.Builder
			for range steps {
				line := g.line()
				script.WriteString(line + "\n")
				if err := r.run(line); err != nil {
					t.Errorf("%s: %v\nthe script up to there, for kvtest.Replay:\n%s", line, err, script.String())
					break
				}
			}
			if err := r.close(); err != nil {
				t.Errorf("closing snapshots: %v", err)
			}
		})
	}
}

// A scriptGenerator makes random lines of a script.
type scriptGenerator struct {
	suite.Generator
	snaps []string
}

func (g *scriptGenerator) line() string {
	switch n := g.Rnd.IntN(100); {
	case n < 45:
		return g.commit()
	case n < 65:
		return fmt.Sprintf("get %s %s", g.reader(), g.Key())
	case n < 92:
		return fmt.Sprintf("scan %s %s %s %d %s", g.reader(), g.Bound(), g.Bound(),
			max(0, g.Rnd.IntN(12)-4), g.Pick("forward", "reverse"))
	case n < 96 || len(g.snaps) == 0:
		g.Made++
		name := fmt.Sprintf("s%d", g.Made)
		g.snaps = append(g.snaps, name)
		return "snapshot " + name
	default:
		i := g.Rnd.IntN(len(g.snaps))
		name := g.snaps[i]
		g.snaps = append(g.snaps[:i], g.snaps[i+1:]...)
		return "close " + name
	}
}

func (g *scriptGenerator) commit() string {
	line := "commit " + g.Pick("applied", "applied", "applied", "durable")
	for range max(0, g.Rnd.IntN(4)-2) {
		switch g.Rnd.IntN(3) {
		case 0:
			line += fmt.Sprintf(" check %s %s", g.Key(), g.Value())
		default:
			line += fmt.Sprintf(" absent %s", g.Key())
		}
	}
	for range g.Rnd.IntN(7) {
		switch n := g.Rnd.IntN(10); {
		case n < 6:
			line += fmt.Sprintf(" set %s %s", g.FullKey(), g.Value())
		case n < 8:
			line += fmt.Sprintf(" clear %s", g.FullKey())
		default:
			line += fmt.Sprintf(" clearrange %s %s", g.Key(), g.FullKey())
		}
	}
	return line
}

// reader is the engine, or one of the open snapshots.
func (g *scriptGenerator) reader() string {
	if i := g.Rnd.IntN(2 * (len(g.snaps) + 1)); i < len(g.snaps) {
		return g.snaps[i]
	}
	return "engine"
}
