package main

import (
	"context"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// rivetkit is the system whose formats Greenroom keeps: RivetKit's @rivetkit/sqlite-vfs
// 2.1.3, a SQLite VFS over a key-value store in JavaScript. bench/peers/rivetkit runs it.
const rivetkit = "rivetkit"

// rivetkitOps is how many calls of its key-value store that makes for a transaction of one
// row, with the settings that RivetKit gives its databases: counted, not timed. It is no
// measurement of a run, since few machines have Node.
const rivetkitOps = 23

// opsLines is sqlite/ops: how many reads and commits of the engine a durable transaction of
// one row takes. Time has no part in it, so the ratio is the same on every machine.
func opsLines(engine string) []line {
	return []line{{
		"sqlite/ops", "txn/call",
		side{"greenroom-" + engine, func(ctx context.Context, at site) (runner, error) {
			r, err := (workload{start: startInsert}).side("greenroom-"+engine).open(ctx, at)
			if err != nil {
				return nil, err
			}
			return counted{r}, nil
		}},
		side{rivetkit, func(context.Context, site) (runner, error) {
			return &metronome{perSecond: 1.0 / rivetkitOps}, nil
		}},
	}}
}

// A counted runner's clock goes on by a second with every call of its engine.
type counted struct{ runner }

var _ clocked = counted{}

func (c counted) clock() time.Duration {
	n := c.counts()
	return time.Duration(calls(n)) * time.Second
}

// calls is what a network would have to carry: reads and commits.
func calls(c faultkv.Counts) int64 { return c.Gets + c.Scans + c.Commits + c.Syncs }
