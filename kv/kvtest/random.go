package kvtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// testRandom runs random scripts, with fixed seeds and one that is new every
// time. A failure prints the script, which Replay runs again.
func testRandom(t *testing.T, open Opener) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			eng := start(t, open)
			steps := testkit.Pick(300, 1500, 1500)
			if eng.Limits().Far {
				steps = testkit.Pick(300, 300, 1500)
			}
			r := newReplayer(eng)
			g := &generator{rnd: rand.New(rand.NewPCG(seed, 0))}
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

// A generator makes random lines of a script. Its keys come from a small space,
// so that operations meet.
type generator struct {
	rnd   *rand.Rand
	snaps []string
	made  int
	// longs says that half of the keys are long, instead of few.
	longs bool
}

func (g *generator) line() string {
	switch n := g.rnd.IntN(100); {
	case n < 45:
		return g.commit()
	case n < 65:
		return fmt.Sprintf("get %s %s", g.reader(), g.key())
	case n < 92:
		return fmt.Sprintf("scan %s %s %s %d %s", g.reader(), g.bound(), g.bound(),
			max(0, g.rnd.IntN(12)-4), g.pick("forward", "reverse"))
	case n < 96 || len(g.snaps) == 0:
		g.made++
		name := fmt.Sprintf("s%d", g.made)
		g.snaps = append(g.snaps, name)
		return "snapshot " + name
	default:
		i := g.rnd.IntN(len(g.snaps))
		name := g.snaps[i]
		g.snaps = append(g.snaps[:i], g.snaps[i+1:]...)
		return "close " + name
	}
}

func (g *generator) commit() string {
	line := "commit " + g.pick("applied", "applied", "applied", "durable")
	for range max(0, g.rnd.IntN(4)-2) {
		switch g.rnd.IntN(3) {
		case 0:
			line += fmt.Sprintf(" check %s %s", g.key(), g.value())
		default:
			line += fmt.Sprintf(" absent %s", g.key())
		}
	}
	for range g.rnd.IntN(7) {
		switch n := g.rnd.IntN(10); {
		case n < 6:
			line += fmt.Sprintf(" set %s %s", g.fullKey(), g.value())
		case n < 8:
			line += fmt.Sprintf(" clear %s", g.fullKey())
		default:
			line += fmt.Sprintf(" clearrange %s %s", g.key(), g.fullKey())
		}
	}
	return line
}

// reader is the engine, or one of the open snapshots.
func (g *generator) reader() string {
	if i := g.rnd.IntN(2 * (len(g.snaps) + 1)); i < len(g.snaps) {
		return g.snaps[i]
	}
	return "engine"
}

// key is up to three letters of four, which include the smallest and the
// largest byte; now and then behind the long prefix.
func (g *generator) key() string { return g.long() + fmt.Sprintf("%q", g.letters(0)) }

// fullKey is a key that isn't empty.
func (g *generator) fullKey() string { return g.long() + fmt.Sprintf("%q", g.letters(1)) }

func (g *generator) long() string {
	if n := g.rnd.IntN(8); n == 0 || g.longs && n < 4 {
		return "long"
	}
	return ""
}

func (g *generator) letters(least int) string {
	const alphabet = "\x00ab\xff"
	b := make([]byte, least+g.rnd.IntN(4-least))
	for i := range b {
		b[i] = alphabet[g.rnd.IntN(len(alphabet))]
	}
	return string(b)
}

func (g *generator) bound() string {
	if g.rnd.IntN(4) == 0 {
		return "nil"
	}
	return g.key()
}

// value comes from a few small ones, so that checks hold now and then, and from
// sizes around those that engines treat differently.
func (g *generator) value() string {
	switch g.rnd.IntN(10) {
	case 0:
		return fmt.Sprintf("pattern(%d,%d)", []int{4095, 4096, 10_000, 70_000}[g.rnd.IntN(4)], g.rnd.IntN(3))
	case 1:
		return g.pick(`""`, "nil")
	}
	return fmt.Sprintf("%q", g.pick("x", "y", "longer value"))
}

func (g *generator) pick(from ...string) string { return from[g.rnd.IntN(len(from))] }
