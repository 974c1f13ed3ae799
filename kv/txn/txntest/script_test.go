package txntest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

func TestReplay(t *testing.T) {
	script := `
engine set "a" "1"
begin t1
get t1 serial "a"
begin t2
set t2 "a" "2"
atomic t2 Add "n" "\x01"
get t2 snapshot "n"
scan t2 serial nil nil 0 reverse
key t2 serial "b" false 1
commit t2
set t1 "b" "x"
clear t1 "c"
clearrange t1 "d" "e"
commit t1
begin t3
scan t3 serial "a" "b" 1 forward
cancel t3
`
	db := newDB(t, memkv.New(), nil)
	if err := Replay(db, script); err != nil {
		t.Fatal(err)
	}
	suite.WantScan(t, db.Engine(), kv.Range{}, "a=2 n=\x01")
	for line, want := range map[string]string{
		"frobnicate t1 \"a\"":        "unknown verb",
		"get t9 serial \"a\"":        "no transaction",
		"get t1 loudly \"a\"":        "unknown mode",
		"atomic t1 Sub \"a\" \"1\"":  "unknown mutation",
		"set t1 a b":                 "is no bytes",
		"engine put \"a\" \"b\"":     "unknown verb",
		"scan t1 serial nil nil x y": "invalid syntax",
	} {
		err := Replay(newDB(t, memkv.New(), nil), "begin t1\n"+line)
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

func (a *lyingAttempt) Commit(ctx context.Context, c *txn.Commit) (txn.Stamp, error) {
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
					c.Reads = append(c.Reads, keySpan(o.Key))
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
			r := newTxReplayer(newDB(t, &txLiar{eng, txn.TransactorOf(eng), lie}, nil))
			defer r.close()
			g := &txGenerator{Generator: suite.Generator{Rnd: rand.New(rand.NewPCG(1, 1))}}
			for range 3000 {
				for line := range strings.SplitSeq(g.line(), "\n") {
					if r.run(line) != nil {
						return
					}
				}
			}
			t.Error("nothing was noticed")
		})
	}
}
