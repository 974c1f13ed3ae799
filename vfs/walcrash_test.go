package vfs_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// walLevels is how many levels of synchronous there are; walCases has every case at each.
const walLevels = 3

// walCases are databases in WAL mode. Their took counts no sub-batches of the log.
func walCases() []crashCase {
	var cases []crashCase
	for _, sync := range [walLevels]string{"FULL", "NORMAL", "OFF"} {
		log := []string{"journal_mode=WAL", "synchronous=" + sync}
		add := func(name string, limits batch.Limits, pragmas, setup []string, steps ...string) {
			c := crashCase{name: name + " " + sync, limits: limits, pragmas: append(log[:2:2], pragmas...), setup: setup}
			for _, s := range steps {
				c.steps = append(c.steps, crashStep{sql: s})
			}
			cases = append(cases, c)
		}
		add("small", batch.Limits{}, nil, []string{table, "insert into t(b) values ('zero')"},
			"insert into t(b) values ('one')", "update t set b = 'two'", "delete from t", "create index i on t(b)",
			"insert into t(b) values ('three')", "PRAGMA wal_checkpoint", "insert into t(b) values ('four')", "insert into t(b) values ('five')",
			"PRAGMA wal_checkpoint(TRUNCATE)", "drop index i")
		add("first transaction", batch.Limits{}, nil, nil, table, fill)
		add("there and back", batch.Limits{}, nil, []string{table, fill},
			"PRAGMA journal_mode=DELETE", "update t set b = 'one'", "PRAGMA journal_mode=WAL", "update t set b = 'two'",
			"PRAGMA journal_mode=TRUNCATE", "insert into t(b) values ('three')")
		add("checkpoints", batch.Limits{}, []string{"wal_autocheckpoint=10"}, []string{table, fill},
			"update t set b = randomblob(1500) where a < 12", "update t set b = randomblob(1500) where a between 12 and 30",
			"delete from t where a % 2", fill, "vacuum", "insert into t(b) values ('last')")
		add("one at a time", oneBatch, []string{"wal_autocheckpoint=10"}, []string{table, fill},
			"update t set b = randomblob(1500)", "delete from t where a > 20", "vacuum", fill)
		add("spill", batch.Limits{Entries: 16}, []string{"cache_size=5"}, []string{table, fill},
			"begin; "+fill+"; update t set b = randomblob(3000); commit", "begin; update t set b = 'lost'; rollback",
			"begin; update t set b = zeroblob(10); savepoint s; delete from t; rollback to s; commit", "PRAGMA wal_checkpoint(RESTART)", "delete from t where a > 100")
		add("small pages", oneBatch, []string{"page_size=512", "cache_size=5", "wal_autocheckpoint=20"}, []string{table, fill},
			"update t set b = randomblob(100)", fill, "vacuum")
		add("alone", batch.Limits{}, []string{"locking_mode=EXCLUSIVE", "wal_autocheckpoint=10"}, []string{table, fill},
			"update t set b = randomblob(1500)", "delete from t where a > 20", "insert into t(b) values ('x')")
	}
	return cases
}

// TestWALCrash stops every case after every engine commit. What was acknowledged
// before is there at every level of synchronous, because the store keeps what it
// applied; only a part of the tape's end is lost here. The same when the recovery
// itself, with the checkpoint at its end, is cut off.
func TestWALCrash(t *testing.T) {
	t.Parallel()
	points, step, second := 0, testkit.Pick(12, 1, 1), testkit.Pick(1, 1, 8) // what races, races at any of them
	cases := walCases()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { points += c.crashLog(t, step, second) })
	}
	t.Logf("%d crash points in %d cases", points, len(cases))
}

// crashLog plays the case, crashes it after every step-th commit, and returns how many points that
// were.
func (c *crashCase) crashLog(t *testing.T, step, second int) (points int) {
	t.Helper()
	tp, acks := c.runLog(t)
	rng := rand.New(rand.NewPCG(2, uint64(len(c.name))))
	for n := acks[0].after; n <= tp.Len(); n += step {
		points += c.crashAt(t, crash{tp, n, second, rng}, acknowledged(acks, n))
	}
	return points
}

// runLog plays the case, of which no step but a checkpoint may leave the store as it
// is, and closes nothing: the log is there at the end.
func (c *crashCase) runLog(t *testing.T) (*engines.Tape, []ack) {
	t.Helper()
	tp := engines.NewTape()
	r := openRig(t, tp, c.limits)
	db := r.open(t, &vfs.Options{Pragmas: c.pragmas, MaxConns: 1, TxMemory: 1 << 17})
	for _, s := range c.setup {
		exec(t, db, s)
	}
	acks := []ack{{contentOf(t, db), tp.Len()}}
	for _, s := range c.steps {
		before := tp.Len()
		exec(t, db, s.sql)
		acks = append(acks, ack{contentOf(t, db), tp.Len()})
		changed := acks[len(acks)-1].state != acks[len(acks)-2].state
		waits := waitedFor(tp, before)
		if waits == 0 && changed && strings.HasSuffix(c.name, "FULL") || waits > 0 && strings.HasSuffix(c.name, "OFF") {
			t.Errorf("%s: waited %d times for stable storage", s.sql, waits)
		}
	}
	intact(t, db)
	return tp, acks
}

// waitedFor returns how many commits of t from number from on were waited for.
func waitedFor(t *engines.Tape, from int) (n int) {
	for _, c := range t.Commits(from) {
		if c.Durable {
			n++
		}
	}
	return n
}

// acknowledged returns the states that a crash may leave when the first n commits are
// what is left: the last one that was acknowledged by then, and the one after it.
func acknowledged(acks []ack, n int) []string {
	low := 0
	for i, a := range acks {
		if a.after <= n {
			low = i
		}
	}
	states := []string{acks[low].state}
	if low+1 < len(acks) {
		states = append(states, acks[low+1].state)
	}
	return states
}

// TestWALFault fails engine operations of the cases, one at a time: at FULL every one that
// writes, and some that read, which don't depend on the level. In the short form one of each kind is failed in each
// case, at one of the levels in turn.
func TestWALFault(t *testing.T) {
	t.Parallel()
	total, cases := 0, walCases()
	for i, c := range cases {
		level, i := i/(len(cases)/walLevels), i%(len(cases)/walLevels)
		for j, kind := range faultKinds {
			if testkit.Short() && (i+j)%walLevels != level || !testkit.Long() && (kind.mixed || level > 0 && (kind.reads() || kind.times == faultkv.Forever)) {
				continue
			}
			t.Run(c.name+"/"+kind.name, func(t *testing.T) {
				if testkit.Short() {
					total += c.faultOne(t, kind, 1+(5*i+3*j)%12)
				} else {
					step := 1
					switch {
					case kind.reads():
						step = testkit.Pick(101, 101, 17)
					case level > 0:
						step = testkit.Pick(13, 13, 1)
					}
					for nth := 1; c.fault(t, kind, nth); nth += step {
						total++
					}
				}
			})
		}
	}
	t.Logf("%d faults", total)
}
