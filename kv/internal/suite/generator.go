package suite

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Generator makes the lines and steps of random scripts. Its keys come from a small space,
// so that operations meet.
type Generator struct {
	Rnd *rand.Rand
	// Longs says that half of the keys are long, instead of few.
	Longs bool
	// Few says that there are fewer keys, and no large values.
	Few bool
	// Mark is a value that no other makes, if it isn't empty.
	Mark string

	made int
	open []string // names of snapshots or transactions
}

// EngineLine is a line about an engine and its snapshots.
func (g *Generator) EngineLine() string {
	switch n := g.Rnd.IntN(100); {
	case n < 45:
		return "engine: " + g.commit()
	case n < 92:
		name := "engine"
		if i := g.Rnd.IntN(2 * (len(g.open) + 1)); i < len(g.open) {
			name = g.open[i]
		}
		return name + ": " + g.Read("get", "get", "scan", "scan", "scan")
	case n < 96 || len(g.open) == 0:
		return g.name("s") + ": open"
	}
	return g.take(g.Rnd.IntN(len(g.open))) + ": close"
}

// TxLine is a line about transactions, beside which the engine commits.
func (g *Generator) TxLine() string {
	if len(g.open) == 0 || len(g.open) < 4 && g.Rnd.IntN(12) == 0 {
		// The first read pins the state, which of the others that is isn't said: some
		// can be answered by the transaction's own writes.
		return g.name("t") + ": begin; snapshot get pin"
	}
	i := g.Rnd.IntN(len(g.open))
	switch n := g.Rnd.IntN(100); {
	case n < 10:
		return g.take(i) + ": " + g.pick("commit", "commit", "commit", "commit", "cancel")
	case n < 16:
		return "engine: " + g.write("set", "set", "set", "set", "set", "set", "set", "clear", "clear", "clearrange") + "; commit"
	case n < 45:
		return g.open[i] + ": " + g.TxWrite()
	}
	return g.open[i] + ": " + g.pick("", "", "snapshot ") + g.Read("get", "scan", "scan", "key")
}

// name makes a name, and keeps it.
func (g *Generator) name(prefix string) string {
	g.made++
	g.open = append(g.open, fmt.Sprint(prefix, g.made))
	return g.open[len(g.open)-1]
}

// take removes a name.
func (g *Generator) take(i int) string {
	name := g.open[i]
	g.open = slices.Delete(g.open, i, i+1)
	return name
}

func (g *Generator) commit() (line string) {
	for range max(0, g.Rnd.IntN(4)-2) {
		if g.Rnd.IntN(3) == 0 {
			line += fmt.Sprintf("is %s %s; ", g.key(0), g.value())
		} else {
			line += fmt.Sprintf("absent %s; ", g.key(0))
		}
	}
	for range g.Rnd.IntN(7) {
		line += g.EngineWrite() + "; "
	}
	return line + g.pick("commit", "commit", "commit", "commit durable")
}

// EngineWrite is a write of a commit of the engine.
func (g *Generator) EngineWrite() string {
	return g.write("set", "set", "set", "clear", "clearrange")
}

// TxWrite is a write of a transaction.
func (g *Generator) TxWrite() string {
	mutation := txn.Mutation(g.Rnd.IntN(10)).String()
	return g.write("set", "set", "set", "set", mutation, mutation, mutation, "clear", "clear", "clearrange")
}

func (g *Generator) write(verbs ...string) string {
	switch verb := g.pick(verbs...); verb {
	case "clear":
		return "clear " + g.key(1)
	case "clearrange":
		return fmt.Sprintf("clearrange %s %s", g.key(0), g.key(1))
	default:
		return fmt.Sprintf("%s %s %s", verb, g.key(1), g.value())
	}
}

// Read is a read with one of these verbs.
func (g *Generator) Read(verbs ...string) string {
	switch verb := g.pick(verbs...); verb {
	case "get":
		return "get " + g.key(0)
	case "key":
		return fmt.Sprintf("key %s %d%s", g.key(0), g.Rnd.IntN(6)-2, g.pick("", " orequal"))
	}
	line := fmt.Sprintf("scan %s %s%s", g.bound(), g.bound(), g.pick("", " reverse"))
	if n := g.Rnd.IntN(12) - 4; n > 0 {
		line += fmt.Sprint(" limit ", n)
	}
	if n := g.Rnd.IntN(12) - 8; n > 0 {
		line += fmt.Sprint(" stop ", n)
	}
	return line
}

// key is so many to three letters of four, which include the smallest and the
// largest byte; now and then behind the long prefix.
func (g *Generator) key(least int) string {
	const alphabet = "\x00ab\xff"
	most := 3
	if g.Few {
		most = 2
	}
	b := make([]byte, least+g.Rnd.IntN(most+1-least))
	for i := range b {
		b[i] = alphabet[g.Rnd.IntN(len(alphabet))]
	}
	long := ""
	if n := g.Rnd.IntN(8); n == 0 || g.Longs && n < 4 {
		long = "long"
	}
	return fmt.Sprintf("%s%q", long, b)
}

func (g *Generator) bound() string {
	if g.Rnd.IntN(4) == 0 {
		return "nil"
	}
	return g.key(0)
}

// value comes from a few small ones, so that checks hold now and then, and from
// sizes around those that engines treat differently.
func (g *Generator) value() string {
	switch n := g.Rnd.IntN(10); {
	case n == 0 && !g.Few:
		return fmt.Sprintf("pattern(%d,%d)", []int{4095, 4096, 10_000, 70_000}[g.Rnd.IntN(4)], g.Rnd.IntN(3))
	case n == 1:
		return g.pick(`""`, "nil")
	case n < 6 && g.Mark != "":
		return g.Mark
	}
	return fmt.Sprintf("%q", g.pick("x", "y", "\x01\x02", "longer value"))
}

func (g *Generator) pick(from ...string) string { return from[g.Rnd.IntN(len(from))] }
