package kvtest

import (
	"context"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

func TestReplay(t *testing.T) {
	script := `
engine: set a 1; set b pattern(5000,7); set "\x00 c" nil; commit
engine: get a = "1"; get missing = -
s1: open
engine: is a 1; absent z; clear a; clearrange b c; commit durable
engine: is a 1; set never x; commit
s1: get b
engine: scan nil nil
s1: scan a nil limit 1 reverse; close
`
	eng := memkv.New()
	if err := Replay(eng, script); err != nil {
		t.Fatal(err)
	}
	suite.WantScan(t, eng, kv.Range{}, "\x00 c=")

	for line, want := range map[string]string{
		"engine: frobnicate":    "unknown verb",
		"engine: set a":         "is missing",
		"engine: commit now":    "too much",
		"engine: get a = \"2\"": "the script wants",
		"s9: get a":             "there is no",
	} {
		err := Replay(memkv.New(), "engine: commit\n"+line)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: got %v, want %q in line 2", line, err, want)
		}
	}
}

// A liar is a memory engine that breaks the contract in one way.
type liar struct {
	kv.Engine
	commit func(c *kv.Commit)
	scan   func(r *kv.Range)
	thaw   bool
}

func (l *liar) Commit(ctx context.Context, c *kv.Commit) error {
	lie := *c
	if l.commit != nil {
		l.commit(&lie)
	}
	return l.Engine.Commit(ctx, &lie)
}

func (l *liar) Scan(ctx context.Context, r kv.Range) iter.Seq2[kv.Entry, error] {
	if l.scan != nil {
		l.scan(&r)
	}
	return l.Engine.Scan(ctx, r)
}

// A thawed is a snapshot that isn't one.
type thawed struct{ kv.Reader }

func (thawed) Close() error { return nil }

func (l *liar) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	if l.thaw {
		return thawed{l.Engine}, nil
	}
	return l.Engine.Snapshot(ctx)
}

// TestRandomFindsLiars: the random scripts find an engine that breaks the
// contract, soon.
func TestRandomFindsLiars(t *testing.T) {
	reverse := func(ops []kv.Op) []kv.Op {
		var out []kv.Op
		for i := range ops {
			out = append(out, ops[len(ops)-1-i])
		}
		return out
	}
	for name, l := range map[string]*liar{
		"ignores checks":        {commit: func(c *kv.Commit) { c.Checks = nil }},
		"applies ops backwards": {commit: func(c *kv.Commit) { c.Ops = reverse(c.Ops) }},
		"loses the last op":     {commit: func(c *kv.Commit) { c.Ops = c.Ops[:max(0, len(c.Ops)-1)] }},
		"includes the end":      {scan: func(r *kv.Range) { r.End = append(r.End[:len(r.End):len(r.End)], 0) }},
		"ignores the limit":     {scan: func(r *kv.Range) { r.Limit = 0 }},
		"takes empty for nil":   {scan: func(r *kv.Range) { r.Start, r.End = noEmpty(r.Start), noEmpty(r.End) }},
		"goes one way only":     {scan: func(r *kv.Range) { r.Reverse = false }},
		"has no snapshots":      {thaw: true},
	} {
		l.Engine = memkv.New()
		g := &suite.Generator{Rnd: rand.New(rand.NewPCG(1, 0))}
		p := suite.NewPlayer(l)
		steps := 0
		for steps < 1500 && p.Play(g.EngineLine()) == nil {
			steps++
		}
		if steps == 1500 {
			t.Errorf("an engine that %s goes unnoticed", name)
		}
	}
}

func noEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
