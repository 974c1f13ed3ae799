package actorstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A generator makes random lines.
type generator struct {
	rnd   *rand.Rand
	snaps []string
	made  int
}

func (g *generator) pick(from ...string) string { return from[g.rnd.IntN(len(from))] }

func (g *generator) key() string {
	return strconv.Quote(g.pick("", "\x00", "\x04", "\x04a", "\x04a\x00", "\x04a\x00\xff", "\x04b", "\x05", "\x09\x00\x00", "\xff"))
}

func (g *generator) line() string {
	switch n := g.rnd.IntN(100); {
	case n < 50:
		return g.commit()
	case n < 65:
		return fmt.Sprintf("get %s %s", g.reader(), g.key())
	case n < 85:
		return fmt.Sprintf("list %s %s %s %s %d %s", g.reader(), g.pick("-", g.key()), g.pick("-", g.key()),
			g.pick("-", g.key()), max(0, g.rnd.IntN(6)-2), g.pick("forward", "reverse"))
	case n < 89:
		g.made++
		g.snaps = append(g.snaps, fmt.Sprint("s", g.made))
		return "snapshot " + g.snaps[len(g.snaps)-1]
	case n < 93 && len(g.snaps) > 0:
		i := g.rnd.IntN(len(g.snaps))
		name := g.snaps[i]
		g.snaps = slices.Delete(g.snaps, i, i+1)
		return "close " + name
	case n < 94:
		return g.pick("wake "+g.pick("0", g.time()), "label "+g.pick("-", "a", "b"), "use")
	case n < 97:
		return "reopen"
	case n < 99:
		g.snaps = nil
		return "restart"
	}
	return "drop"
}

func (g *generator) reader() string {
	return g.pick(append([]string{"actor", "actor", "view"}, g.snaps...)...)
}

// time is one that is yet to come: what is due stays due, which the model doesn't know.
func (g *generator) time() string { return fmt.Sprint(1<<50 + g.rnd.IntN(1000)) }

func (g *generator) commit() string {
	line := "commit " + g.pick("atomic", "ordered") + " " + g.pick("durable", "applied")
	for range g.rnd.IntN(6) {
		prior := g.pick("?", "known")
		switch g.rnd.IntN(6) {
		case 0:
			line += fmt.Sprintf("; delete %s %s", g.key(), prior)
		case 1:
			line += fmt.Sprintf("; range %s %s %s", g.key(), g.pick("-", g.key()), prior)
		default:
			line += fmt.Sprintf("; put %s %s %s", g.key(), g.pick("0", "1", "4096", "10000", "10001", "33000"), prior)
		}
	}
	if g.rnd.IntN(4) == 0 {
		line += "; by " + g.time()
	}
	if g.rnd.IntN(4) == 0 {
		line += fmt.Sprintf("; final put %s 7 ?", g.key())
	}
	return line
}

// onReplayers runs test with an empty actor on each engine.
func onReplayers(t *testing.T, test func(t *testing.T, r *replayer)) {
	start := func(t *testing.T, eng kv.Engine, restart func(kv.Engine) (kv.Engine, error)) {
		replay(t, &replayer{eng: eng, restart: restart}, test)
	}
	t.Run("memkv", func(t *testing.T) {
		start(t, memkv.New(), func(eng kv.Engine) (kv.Engine, error) { return eng, nil })
	})
	for name, cacheBytes := range map[string]int64{"far": 0, "far, tiny cache": 30_000, "far, no cache": -1} {
		t.Run(name, func(t *testing.T) { replay(t, farReplayer(cacheBytes), test) })
	}
	t.Run("pebblekv", func(t *testing.T) {
		dir := t.TempDir()
		open := func() (kv.Engine, error) {
			return pebblekv.Open(dir, &pebblekv.Options{CacheBytes: 8 << 20, MemtableBytes: 1 << 20})
		}
		eng, err := open()
		must(t, err)
		start(t, eng, func(eng kv.Engine) (kv.Engine, error) {
			if err := eng.Close(); err != nil {
				return eng, err
			}
			return open()
		})
	})
}

// replay runs test with r, which says on what.
func replay(t *testing.T, r *replayer, test func(t *testing.T, r *replayer)) {
	r.model, r.snaps = contents{}, map[string]pinned{}
	must(t, r.open())
	test(t, r)
	must(t, errors.Join(r.close(), r.eng.Close()))
}

// TestRandom runs random scripts, with fixed seeds and one that is new every time.
// A failure prints the script: as a file testdata/scripts/NAME.txt, it is run by
// TestScripts.
func TestRandom(t *testing.T) {
	steps := testkit.Pick(60, 200, 2400)
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			onReplayers(t, func(t *testing.T, r *replayer) {
				g := &generator{rnd: rand.New(rand.NewPCG(seed, 0))}
				runRandom(t, r.run, steps, g.line)
			})
		})
	}
}

// runRandom runs lines as they come from line.
func runRandom(t *testing.T, run func(string) error, steps int, line func() string) {
	t.Helper()
	var script strings.Builder
	for range steps {
		line := line()
		script.WriteString(line + "\n")
		if err := run(line); err != nil {
			t.Fatalf("%s: %v\nthe script up to there:\n%s", line, err, script.String())
		}
	}
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			script, err := os.ReadFile(file)
			must(t, err)
			onReplayers(t, func(t *testing.T, r *replayer) {
				for i, line := range strings.Split(strings.TrimSpace(string(script)), "\n") {
					if err := r.run(line); err != nil {
						t.Fatalf("line %d, %s: %v", i+1, line, err)
					}
				}
			})
		})
	}
}
