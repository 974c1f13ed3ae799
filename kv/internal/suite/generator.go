package suite

import (
	"fmt"
	"math/rand/v2"
)

// A Generator makes the random words of a script. Its keys come from a small space,
// so that operations meet.
type Generator struct {
	Rnd  *rand.Rand
	Made int
	// Longs says that half of the keys are long, instead of few.
	Longs bool
}

// Key is up to three letters of four, which include the smallest and the
// largest byte; now and then behind the long prefix.
func (g *Generator) Key() string { return g.long() + fmt.Sprintf("%q", g.letters(0)) }

// FullKey is a key that isn't empty.
func (g *Generator) FullKey() string { return g.long() + fmt.Sprintf("%q", g.letters(1)) }

func (g *Generator) long() string {
	if n := g.Rnd.IntN(8); n == 0 || g.Longs && n < 4 {
		return "long"
	}
	return ""
}

func (g *Generator) letters(least int) string {
	const alphabet = "\x00ab\xff"
	b := make([]byte, least+g.Rnd.IntN(4-least))
	for i := range b {
		b[i] = alphabet[g.Rnd.IntN(len(alphabet))]
	}
	return string(b)
}

// Bound is a key, or nil.
func (g *Generator) Bound() string {
	if g.Rnd.IntN(4) == 0 {
		return "nil"
	}
	return g.Key()
}

// Value comes from a few small ones, so that checks hold now and then, and from
// sizes around those that engines treat differently.
func (g *Generator) Value() string {
	switch g.Rnd.IntN(10) {
	case 0:
		return fmt.Sprintf("pattern(%d,%d)", []int{4095, 4096, 10_000, 70_000}[g.Rnd.IntN(4)], g.Rnd.IntN(3))
	case 1:
		return g.Pick(`""`, "nil")
	}
	return fmt.Sprintf("%q", g.Pick("x", "y", "longer value"))
}

// Pick picks one.
func (g *Generator) Pick(from ...string) string { return from[g.Rnd.IntN(len(from))] }
