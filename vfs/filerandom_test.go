package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A fileGenerator makes random lines for a fileReplayer.
type fileGenerator struct{ rnd *rand.Rand }

func (g *fileGenerator) pick(from ...string) string { return from[g.rnd.IntN(len(from))] }

// offset is near a boundary of chunks half of the time.
func (g *fileGenerator) offset() int64 {
	if g.rnd.IntN(2) == 0 {
		return max(0, g.rnd.Int64N(6)*chunked.Size+g.rnd.Int64N(3)-1)
	}
	return g.rnd.Int64N(6 * chunked.Size)
}

func (g *fileGenerator) size() int64 {
	sizes := []int64{1, 4, 12, 28, 100, 1020, chunked.Size - 1, chunked.Size, chunked.Size + 1, 3 * chunked.Size}
	if g.rnd.IntN(300) == 0 {
		return vfs.LeastTxMemory + 3*chunked.Size // more than is kept in memory
	}
	return sizes[g.rnd.IntN(len(sizes))]
}

func (g *fileGenerator) line() string {
	switch n := g.rnd.IntN(100); {
	case n < 80:
		return g.tx()
	case n < 86:
		return fmt.Sprintf("read %d %d", g.offset(), g.size())
	case n < 91:
		return "pin"
	case n < 95:
		return "unpin"
	}
	return "reopen"
}

func (g *fileGenerator) tx() string {
	end := g.pick("commit", "commit", "commit", "rollback", "close", "crash", "crash", "crash")
	if end == "crash" {
		end += fmt.Sprint(" ", g.rnd.IntN(12))
		if g.rnd.IntN(3) == 0 {
			end += fmt.Sprint(" ", g.rnd.IntN(12))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tx %s %s", g.pick("atomic", "atomic", "delete", "truncate", "persist"), end)
	for range 1 + g.rnd.IntN(5) {
		if g.rnd.IntN(4) == 0 {
			// SQLite truncates no file to nothing while a journal could undo it.
			fmt.Fprintf(&b, "; truncate %d", max(1, g.offset()))
		} else {
			fmt.Fprintf(&b, "; write %d %d %s", g.offset(), g.size(), g.pick("ff", fmt.Sprint(g.rnd.IntN(100))))
		}
	}
	return b.String()
}

var fileLimits = map[string]batch.Limits{
	"any":      {},
	"entries":  {Entries: 3},
	"one":      {AtomicBatches: 1, Entries: 3},
	"one wide": {AtomicBatches: 1},
}

// TestFileRandom runs random scripts, with fixed seeds and one that is new every
// time. A failure prints the script: as a file testdata/files/NAME.txt, it is run by
// TestFileScripts.
func TestFileRandom(t *testing.T) {
	t.Parallel()
	steps := testkit.Pick(80, 120, 400)
	for name, limits := range fileLimits {
		for _, seed := range []uint64{1, 2, rand.Uint64()} {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				g := &fileGenerator{rand.New(rand.NewPCG(seed, 0))}
				r := newFileReplayer(t, limits)
				var script strings.Builder
				for range steps {
					line := g.line()
					script.WriteString(line + "\n")
					if err := r.run(line); err != nil {
						t.Fatalf("%s: %v\nthe script up to there:\n%s", line, err, script.String())
					}
				}
				r.close()
			})
		}
	}
}

func TestFileScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/files/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, limits := range fileLimits {
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				r := newFileReplayer(t, limits)
				for i, line := range strings.Split(strings.TrimSpace(string(script)), "\n") {
					if err := r.run(line); err != nil {
						t.Fatalf("line %d, %s: %v", i+1, line, err)
					}
				}
				r.close()
			})
		}
	}
}
