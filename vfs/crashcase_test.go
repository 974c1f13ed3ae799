package vfs_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/tuple"
	"github.com/greenroomdb/greenroom/vfs"
)

// A crashCase is a database and what is done to it, one transaction a step.
type crashCase struct {
	name     string
	limits   batch.Limits
	txMemory int64
	pragmas  []string
	setup    []string
	steps    []crashStep
}

// A crashStep is one transaction, and what it takes: a case whose transactions have
// become smaller tests something else.
type crashStep struct {
	sql  string
	took took
}

// A took is what one transaction cost.
type took struct {
	commits int // of the engine
	main    int // sub-batches of the main file
	journal int // sub-batches of the journal, its end included
}

var (
	oneBatch = batch.Limits{AtomicBatches: 1, Entries: 8}
	table    = "create table t(a integer primary key, b blob)"
	fill     = "insert into t(b) select zeroblob(1500) from generate_series(1, 80)"
	// spilled is a transaction of which parts are stored before it commits, also if it is
	// the first one.
	spilled = "begin; create table if not exists t(a integer primary key, b blob); " +
		"insert into t(b) select randomblob(3000) from generate_series(1, 300); update t set b = zeroblob(4000) where a % 2; commit"
)

var crashCases = []crashCase{
	{"small", batch.Limits{}, 0, nil, []string{table, "insert into t(b) values ('zero')"}, []crashStep{
		{"insert into t(b) values ('one')", took{1, 1, 0}}, {"insert into t(b) values ('two')", took{1, 1, 0}}, {"update t set b = 'three'", took{1, 1, 0}},
		{"delete from t", took{1, 1, 0}}, {"create index i on t(b)", took{1, 1, 0}}, {"insert into t(b) values ('four')", took{1, 1, 0}}, {"drop index i", took{1, 1, 0}},
	}},
	{"first transaction", batch.Limits{}, 0, nil, nil, []crashStep{{table, took{1, 1, 0}}, {fill, took{1, 1, 0}}}},
	{"first transaction spilled", batch.Limits{}, vfs.LeastTxMemory, []string{"cache_size=5"}, nil, []crashStep{{spilled, took{7, 5, 2}}, {spilled, took{6, 4, 2}}}},
	{"first transaction spilled, in parts", batch.Limits{AtomicBatches: 1, Entries: 200}, vfs.LeastTxMemory, []string{"cache_size=5", "journal_mode=truncate"}, nil, []crashStep{
		{spilled, took{5, 3, 2}}, {fill, took{1, 1, 0}},
	}},
	{"first transaction spilled, then undone", batch.Limits{AtomicBatches: 1, Entries: 200}, vfs.LeastTxMemory, []string{"cache_size=5"}, nil, []crashStep{
		{strings.Replace(spilled, "commit", "rollback", 1), took{5, 3, 2}}, {table, took{1, 1, 0}},
	}},
	{"several sub-batches", batch.Limits{Entries: 16}, 0, nil, []string{table}, []crashStep{
		{fill, took{1, 3, 0}}, {"update t set b = randomblob(1500)", took{1, 3, 0}}, {fill, took{1, 3, 0}}, {"delete from t where a % 2", took{1, 5, 0}}, {"vacuum", took{2, 4, 0}},
	}},
	{"append first", oneBatch, 0, nil, []string{table}, []crashStep{{fill, took{6, 6, 0}}, {fill, took{6, 6, 0}}, {"insert into t(b) values ('x')", took{1, 1, 0}}, {fill, took{6, 6, 0}}}},
	{"fallback", oneBatch, 0, nil, []string{table, fill}, []crashStep{
		{"update t set b = randomblob(1500)", took{12, 5, 7}}, {"delete from t where a % 3 = 0", took{9, 4, 5}}, {"update t set b = randomblob(1600)", took{12, 5, 7}}, {"vacuum", took{10, 5, 5}},
	}},
	{"spill", batch.Limits{}, 0, []string{"cache_size=5"}, []string{table, fill}, []crashStep{
		{"begin; " + fill + "; update t set b = randomblob(3000); commit", took{1, 2, 0}},
		{"begin; delete from t where a > 100; " + fill + "; commit", took{1, 1, 0}}, {"vacuum", took{2, 3, 0}},
		{"begin; update t set b = zeroblob(10); savepoint s; delete from t; rollback to s; commit", took{1, 2, 0}},
		{"begin; update t set b = 'lost'; rollback", took{1, 2, 0}},
	}},
	{"spill and fallback", oneBatch, 0, []string{"cache_size=5"}, []string{table, fill}, []crashStep{
		{"begin; " + fill + "; update t set b = randomblob(3000); commit", took{28, 21, 7}}, {"delete from t where a > 40", took{1, 1, 0}}, {"vacuum", took{14, 7, 7}},
		{"begin; delete from t; rollback", took{0, 0, 0}},
	}},
	{"truncate", oneBatch, 0, []string{"journal_mode=truncate", "cache_size=5"}, []string{table, fill}, []crashStep{
		{"update t set b = randomblob(1500)", took{13, 6, 7}}, {"delete from t where a > 20", took{1, 1, 0}}, {"vacuum", took{6, 3, 3}}, {fill, took{6, 6, 0}},
	}},
	{"persist", oneBatch, 0, []string{"journal_mode=persist", "cache_size=5"}, []string{table, fill}, []crashStep{
		{"update t set b = randomblob(1500)", took{13, 6, 7}}, {"delete from t where a > 20", took{1, 1, 0}}, {"vacuum", took{6, 3, 3}}, {fill, took{6, 6, 0}},
	}},
	{"auto_vacuum", oneBatch, 0, []string{"auto_vacuum=full", "cache_size=5"}, []string{table, fill}, []crashStep{
		{"delete from t where a > 20", took{2, 2, 0}}, {fill, took{6, 6, 0}}, {"delete from t where a % 2", took{15, 7, 8}},
	}},
	{"small pages", oneBatch, 0, []string{"page_size=512", "cache_size=5"}, []string{table, fill}, []crashStep{
		{"update t set b = randomblob(100)", took{4, 2, 2}}, {fill, took{7, 5, 2}}, {"vacuum", took{12, 6, 6}},
	}},
	{"large pages", oneBatch, 0, []string{"page_size=65536"}, []string{table, fill}, []crashStep{
		{"update t set b = randomblob(1500)", took{10, 4, 6}}, {fill, took{19, 11, 8}}, {"delete from t", took{14, 6, 8}}, {"vacuum", took{11, 5, 6}},
	}},
}

// sizedCase is transactions whose main file takes n sub-batches of eight writes:
// one that overwrites, one that appends, one that truncates, and VACUUM. With
// atomic they are one engine commit each. Without, an engine takes one sub-batch at
// once: they go through the journal, or append first, as soon as n is over 1.
func sizedCase(n int, atomic bool) crashCase {
	rows := 8*(n-1) + 3 // a page each, and up to five pages and the size besides
	limits, how := batch.Limits{Entries: 8}, "atomic"
	whole, grown := took{1, n, 0}, took{1, n, 0}
	if !atomic {
		limits, how = oneBatch, "one at a time"
		if n > 1 {
			// The journal needs one more than what it undoes, and its end is one.
			whole, grown = took{2*n + 1, n, n + 1}, took{n + 1, n + 1, 0}
		}
	}
	shrunk := took{2, n + 1, 0} // the truncation follows the commit
	if whole.journal > 0 {
		shrunk = took{2*n + 3, n + 1, n + 2}
	}
	return crashCase{
		name: fmt.Sprintf("%d sub-batches %s", n, how), limits: limits, pragmas: []string{"auto_vacuum=full"},
		setup: []string{table, fmt.Sprintf("insert into t(b) select randomblob(3000) from generate_series(1, %d)", rows)},
		steps: []crashStep{
			{"update t set b = randomblob(3000)", whole},
			{fmt.Sprintf("insert into t(b) select randomblob(3000) from generate_series(1, %d)", rows), grown},
			{fmt.Sprintf("begin; delete from t where a > %d; update t set b = randomblob(3000); commit", rows), shrunk},
			{"vacuum", whole},
		},
	}
}

// allCrashCases is the cases by hand, and those by number of sub-batches.
func allCrashCases() []crashCase {
	cases := slices.Clone(crashCases)
	for n := 1; n <= 5; n++ {
		cases = append(cases, sizedCase(n, true), sizedCase(n, false))
	}
	return cases
}

// tookFrom adds up the commits of t from number from on. An engine commit of an actor has
// one METADATA row for each key that is set or removed, and one range for each
// range: so many writes of a batch it was.
func tookFrom(t *engines.Tape, from int, limits batch.Limits) (sum took) {
	main, journal := fileMark(actorstore.FileMain), fileMark(actorstore.FileJournal)
	entries := limits.OrDefault().Entries
	for _, c := range t.Commits(from) {
		writes, ofMain, ofJournal := 0, false, false
		for _, op := range c.Ops {
			if op.Kind == kv.OpClearRange || bytes.HasSuffix(op.Key, metadataEnd) {
				writes++
			}
			ofMain = ofMain || main(op.Key)
			ofJournal = ofJournal || journal(op.Key)
		}
		subs := (writes + entries - 1) / entries
		sum.commits++
		switch {
		case ofMain:
			sum.main += subs
		case ofJournal:
			sum.journal += subs
		}
	}
	return sum
}

// metadataEnd is how the key of a METADATA row ends.
var metadataEnd = tuple.AppendUint(nil, 44)

// fileMark tells the rows of one of a database's files: they hold the beginning of
// its keys, escaped.
func fileMark(tag actorstore.FileTag) func(row []byte) bool {
	chunk := tuple.AppendBytes(nil, layout.AppendFileChunk(nil, tag, 0)[:len(layout.Prefix(actorstore.NamespaceSQLite))+2])
	meta := tuple.AppendBytes(nil, layout.AppendFileMeta(nil, tag))
	return func(row []byte) bool {
		return bytes.Contains(row, chunk[:len(chunk)-1]) || bytes.Contains(row, meta)
	}
}
