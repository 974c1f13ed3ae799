package txntest

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

func TestReplay(t *testing.T) {
	script := `
engine: set a 1; commit
t1: begin; get a = "1"
t2: begin; set a 2; Add n "\x01"; snapshot get n = "\x01"
t2: scan nil nil reverse = "n"="\x01" "a"="2"
t2: key b 1 = "n"; commit
t1: set b x; clear c; clearrange d e; commit
t3: begin; scan a b limit 1 = "a"="2"; cancel
`
	eng := memkv.New()
	if err := kvtest.Replay(eng, script); err != nil {
		t.Fatal(err)
	}
	suite.WantScan(t, eng, kv.Range{}, "a=2 n=\x01")
	for line, want := range map[string]string{
		"t1: frobnicate a":        "unknown verb",
		"t9: get a":               "there is no",
		"t1: Sub a 1":             "unknown verb",
		"t1: set a":               "is missing",
		"t1: scan nil nil x":      "too much",
		"t1: scan a b limit x":    "invalid syntax",
		"engine: Add a 1; commit": "no atomic operations",
	} {
		err := kvtest.Replay(memkv.New(), "t1: begin\n"+line)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v, want %q in line 2", line, err, want)
		}
	}
}

// A txLiar is a memory engine whose transactions break the contract in one way.
type txLiar struct {
	kv.Engine
	txn.Transactor
	commit func(c *txn.Commit)
}

func (l *txLiar) Attempt(ctx context.Context, o txn.AttemptOptions) (txn.Attempt, error) {
	a, err := l.Transactor.Attempt(ctx, o)
	return &lyingAttempt{a, l}, err
}

type lyingAttempt struct {
	txn.Attempt
	l *txLiar
}

// Commit lets others go first, with the state pinned that this attempt has read: on one processor no two attempts would meet otherwise.
func (a *lyingAttempt) Commit(ctx context.Context, c *txn.Commit) (txn.Stamp, error) {
	for range 3 {
		runtime.Gosched()
	}
	lie := *c
	a.l.commit(&lie)
	return a.Attempt.Commit(ctx, &lie)
}

// TestRandomFindsLies: the random run notices an engine that finds too few or too many
// conflicts, or applies something else than it was given.
func TestRandomFindsLies(t *testing.T) {
	for name, lie := range map[string]func(c *txn.Commit){
		"no conflicts": func(c *txn.Commit) { c.Reads = nil },
		"the first read forgotten": func(c *txn.Commit) {
			if len(c.Reads) > 1 {
				c.Reads = c.Reads[1:]
			}
		},
		"reads too far": func(c *txn.Commit) {
			if len(c.Reads) > 0 {
				c.Reads = []txn.Span{{Start: c.Reads[0].Start}}
			}
		},
		"writes as reads": func(c *txn.Commit) {
			for _, o := range c.Ops {
				if o.Kind != kv.OpClearRange {
					c.Reads = append(c.Reads, suite.KeySpan(o.Key))
				}
			}
		},
		"the last operation lost": func(c *txn.Commit) {
			if len(c.Ops) > 1 {
				c.Ops = c.Ops[:len(c.Ops)-1]
			}
		},
		"atomic as set": func(c *txn.Commit) {
			for i := range c.Ops {
				c.Ops[i].Kind = min(c.Ops[i].Kind, kv.OpClearRange)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eng := memkv.New()
			p := suite.NewPlayer(&txLiar{eng, txn.TransactorOf(eng), lie})
			defer p.Close()
			g := &suite.Generator{Rnd: rand.New(rand.NewPCG(1, 1))}
			for range 3000 {
				if p.Play(g.TxLine()) != nil {
					return
				}
			}
			t.Error("nothing was noticed")
		})
	}
}

// TestHistoryFindsLies: what runs at once, and is judged by its history alone, finds an engine that misses conflicts
// or loses writes, soon.
func TestHistoryFindsLies(t *testing.T) {
	for name, lie := range map[string]func(c *txn.Commit){
		"no conflicts": func(c *txn.Commit) { c.Reads = nil },
		"the first read forgotten": func(c *txn.Commit) {
			if len(c.Reads) > 1 {
				c.Reads = c.Reads[1:]
			}
		},
		"the last operation lost": func(c *txn.Commit) {
			if len(c.Ops) > 1 {
				c.Ops = c.Ops[:len(c.Ops)-1]
			}
		},
	} {
		for work, run := range map[string]func(db *txn.DB) error{
			"lists": func(db *txn.DB) error { return appendToLists(db, 60) },
			"mix":   func(db *txn.DB) error { return mix(db, rand.Uint64(), 100) },
		} {
			t.Run(name+"/"+work, func(t *testing.T) {
				for range 50 {
					eng := memkv.New()
					if err := run(newDB(t, &txLiar{eng, txn.TransactorOf(eng), lie}, nil)); err != nil {
						return
					}
				}
				t.Error("nothing was noticed")
			})
		}
	}
}
