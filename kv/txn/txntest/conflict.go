package txntest

import (
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A conflictCase is a transaction that does steps, while another commits others; then
// it writes something else and commits. The store holds b, d, f and h.
type conflictCase struct {
	name, steps, others string
	conflict            bool
}

var conflictCases = []conflictCase{
	{"value read", "get b", "set b 1", true},
	{"value read, set to the same", "get b", "set b B", true},
	{"value read, cleared", "get b", "clear b", true},
	{"value read, cleared with a range", "get b", "clearrange a c", true},
	{"value read, added to", "get b", "add b 1", true},
	{"missing key read, set", "get c", "set c 1", true},
	{"missing key read, cleared", "get c", "clear c", true},
	{"value read, the next key written", "get b", "set b\x00 1; set bb 1; set a 1", false},
	{"value read, the range before and behind cleared", "get b", "clearrange a b; clearrange b\x00 z", false},

	{"blind write of the same key", "set b 2", "set b 1", false},
	{"blind clear of the same key", "clear b", "set b 1", false},
	{"blind clear of a range", "clearrange a z", "set b 1; set c 1", false},
	{"blind addition", "add b 1", "set b 1; add b 2", false},
	{"own value read", "set b 2; get b", "set b 1", false},
	{"own clear read", "clear b; get b", "set b 1", false},
	{"own cleared range read", "clearrange a z; get b; scan a z; scan a z limit 1", "set b 1; set c 1", false},
	{"own addition read", "add b 1; get b", "set b 1", true},
	{"own addition to an own value read", "set b 1; add b 1; get b", "set b 1", false},
	{"read, then written", "get b; set b 2", "set b 1", true},

	{"range read, key in it set", "scan a e", "set b 1", true},
	{"range read, key in it new", "scan a e", "set c 1", true},
	{"range read, key in it cleared", "scan a e", "clearrange c cc", true},
	{"range read, its start new", "scan a e", "set a 1", true},
	{"range read, its end new", "scan a e", "set e 1; set f 1; set ` 1", false},
	{"empty range read", "scan bb c", "set bc 1", true},
	{"range of no keys read", "scan e a; scan a a", "set a 1; set b 1", false},

	{"limit not reached", "scan a e limit 3", "set dd 1", true},
	{"limit reached, before the last", "scan a z limit 2", "set c 1", true},
	{"limit reached, the last changed", "scan a z limit 2", "set d 1", true},
	{"limit reached, behind the last", "scan a z limit 2", "set d\x00 1; clear f; set e 1", false},
	{"limit reached at the end", "scan a e limit 2", "set dd 1", false},
	{"reverse limit, behind the last", "scan a z limit 2 reverse", "set i 1", true},
	{"reverse limit, the last changed", "scan a z limit 2 reverse", "set f 1", true},
	{"reverse limit, before the last", "scan a z limit 2 reverse", "set e 1; clear d; set eeee 1", false},
	{"reverse limit not reached", "scan e z limit 3 reverse", "set e 1", true},
	{"loop left, before", "scan a z stop 2", "set c 1", true},
	{"loop left, behind", "scan a z stop 2", "set e 1", false},

	{"own key in a range", "set c 2; scan a e", "set c 1", false},
	{"own key in a range, the keys around it", "set c 2; scan a e", "set c\x00 1", true},
	{"own key in a range, before it", "set c 2; scan a e", "set bb 1", true},
	{"own key in a reverse range", "set c 2; scan a e limit 9 reverse", "set c 1", false},
	{"own key in a reverse range, behind it", "set c 2; scan a e limit 9 reverse", "set c\x00 1", true},
	{"own key ends the limit", "set c 2; scan a z limit 2", "set c\x00 1; set d 1", false},
	{"own key ends the limit, before it", "set c 2; scan a z limit 2", "set bb 1", true},
	{"own cleared key in a range", "clear d; scan a e", "set d 1", false},
	{"own cleared range in a range", "clearrange c e; scan a z", "set c 1; set d 1", false},
	{"own cleared range in a range, before it", "clearrange c e; scan a z", "set bb 1", true},
	{"own cleared range in a range, behind it", "clearrange c e; scan a z", "set e 1", true},
	{"own cleared range in a reverse range", "clearrange c e; scan a z limit 9 reverse", "set c 1; set d 1", false},
	{"own cleared range in a reverse range, behind it", "clearrange c e; scan a z limit 9 reverse", "set e 1", true},
	{"own cleared key before the limit", "clear b; scan a z limit 1", "set d 1", true},
	{"own cleared key before the limit, behind it", "clear b; scan a z limit 1", "set dd 1; set b 1", false},
	{"own addition in a range", "add d 1; scan a e", "set d 1", true},
}

// gapCases: a selected key depends on everything between it and the key that the selector is about.
var gapCases = []conflictCase{
	{"first ≥, the key itself", "key c 1", "set c 1", true},
	{"first ≥, the gap", "key c 1", "set cc 1", true},
	{"first ≥, the result", "key c 1", "clear d", true},
	{"first ≥, outside", "key c 1", "set bb 1; set d\x00 1; clear b", false},
	{"first >, the key itself", "key b 1 orequal", "set b 1", false},
	{"first >, the gap", "key b 1 orequal", "set b\x00 1", true},
	{"last <, the key itself", "key d 0", "set d 1; set e 1", false},
	{"last <, the gap", "key d 0", "set c 1", true},
	{"last <, the result", "key d 0", "set b 1", true},
	{"last <, outside", "key d 0", "set a 1", false},
	{"last ≤, the key itself", "key c 0 orequal", "set c 1", true},
	{"last ≤, outside", "key c 0 orequal", "set c\x00 1; set a 1", false},
	{"none behind", "key h 1 orequal", "set i 1", true},
	{"none before", "key b 0", "set a 1", true},
	{"third behind", "key b 2 orequal", "set e 1", true},
	{"third behind, outside", "key b 2 orequal", "set b 1; set g 1", false},
	{"own result", "set c 1; key bb 1", "set c 1; set cc 1", false},
	{"own result, the gap", "set c 1; key bb 1", "set bc 1", true},
	{"own cleared key in the gap", "clear d; key c 1", "set d 1", false},
	{"own cleared key in the gap, behind it", "clear d; key c 1", "set e 1", true},
}

// testConflicts: what a transaction has seen must not change, what it hasn't may.
func testConflicts(t *testing.T, db *txn.DB) {
	for _, c := range conflictCases {
		t.Run(c.name, func(t *testing.T) { c.test(t, db) })
		t.Run(c.name+" (snapshot, or read-only)", func(t *testing.T) {
			// Transactions that only read conflict with no other, and no other with them. Nor do reads that don't count.
			play(t, db, "engine: set b B; set d D; set f F; set h H; commit",
				"r: begin; get b; scan a z; scan a z limit 1; scan a z limit 1 reverse",
				"o: begin; "+c.others+"; commit"+must(db, true),
				"r: commit = ok",
				"t: begin; snapshot get b; snapshot get c; snapshot scan a z; snapshot scan a z limit 1; snapshot scan a z limit 1 reverse",
				"o: begin; "+c.others+"; commit"+must(db, true),
				"t: set zout 2; commit"+must(db, true))
		})
	}
	t.Run("gaps of selectors", func(t *testing.T) {
		for _, c := range gapCases {
			t.Run(c.name, func(t *testing.T) { c.test(t, db) })
		}
	})
}

func (c *conflictCase) test(t *testing.T, db *txn.DB) {
	play(t, db, "engine: set b B; set d D; set f F; set h H; commit",
		"t: begin; snapshot get zz; "+c.steps, // which pins the state
		"o: begin; "+c.others+"; commit"+must(db, true),
		"t: set zout 1; commit"+must(db, !c.conflict))
}

// must is what the script of a commit says of its outcome. Only an exact engine must, or must not, find a conflict
// between two transactions alone.
func must(db *txn.DB, succeed bool) string {
	switch {
	case !exact(db):
		return ""
	case succeed:
		return " = ok"
	}
	return " = conflict"
}

// wantConflict checks the error of a commit. Only an exact engine must, or must not,
// find a conflict between two transactions alone.
func wantConflict(t testing.TB, db *txn.DB, err error, want bool) {
	t.Helper()
	switch {
	case err != nil && (!errors.Is(err, kv.ErrConflict) || !txn.Retryable(err)):
		t.Errorf("Commit: %v", err)
	case exact(db) && (err != nil) != want:
		t.Errorf("Commit: got error %v, want a conflict: %v", err, want)
	}
}

// testDeclared: spans that transactions declare count as read and as written.
func testDeclared(t *testing.T, db *txn.DB) {
	b := func(s string) []byte { return []byte(s) }
	for _, c := range []struct {
		name     string
		reader   func(tx *txn.Tx) error
		writer   func(tx *txn.Tx) error
		conflict bool
	}{
		{"key read", func(tx *txn.Tx) error { return tx.AddReadConflictKey(b("k")) },
			func(tx *txn.Tx) error { return tx.Set(b("k"), nil) }, true},
		{"another key read", func(tx *txn.Tx) error { return tx.AddReadConflictKey(b("k")) },
			func(tx *txn.Tx) error { return tx.Set(b("k\x00"), nil) }, false},
		{"range read", func(tx *txn.Tx) error { return tx.AddReadConflictRange(b("a"), b("m")) },
			func(tx *txn.Tx) error { return tx.ClearRange(b("l"), b("z")) }, true},
		{"range read, to the end", func(tx *txn.Tx) error { return tx.AddReadConflictRange(b("a"), nil) },
			func(tx *txn.Tx) error { return tx.Set(b("\xff\xff"), nil) }, true},
		{"range read, its end", func(tx *txn.Tx) error { return tx.AddReadConflictRange(nil, b("m")) },
			func(tx *txn.Tx) error { return tx.Set(b("m"), nil) }, false},
		{"inverted range read", func(tx *txn.Tx) error { return tx.AddReadConflictRange(b("m"), b("a")) },
			func(tx *txn.Tx) error { return tx.Set(b("b"), nil) }, false},
		{"key written", func(tx *txn.Tx) error { return drain(tx, suite.Between("j", "l"), 0) },
			func(tx *txn.Tx) error { return tx.AddWriteConflictKey(b("k")) }, true},
		{"another key written", func(tx *txn.Tx) error { return drain(tx, suite.Between("j", "l"), 0) },
			func(tx *txn.Tx) error { return tx.AddWriteConflictKey(b("l")) }, false},
		{"range written", func(tx *txn.Tx) error { return drain(tx, suite.Between("j", "l"), 0) },
			func(tx *txn.Tx) error { return tx.AddWriteConflictRange(b("a"), nil) }, true},
		{"both", func(tx *txn.Tx) error { return tx.AddReadConflictKey(b("q")) },
			func(tx *txn.Tx) error { return tx.AddWriteConflictRange(b("p"), b("r")) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx := begin(t, db)
			look(t, tx.Snapshot(), "get pin")
			if err := c.reader(tx); err != nil {
				t.Fatal(err)
			}
			if err := db.Update(ctx, c.writer); err != nil {
				t.Fatal(err)
			}
			do(t, tx, "set zout 1")
			wantConflict(t, db, tx.Commit(ctx), c.conflict)
		})
	}
	// One that declares nothing but reads has nothing to commit.
	tx := begin(t, db)
	look(t, tx.Snapshot(), "get pin")
	if err := tx.AddReadConflictKey(b("k")); err != nil {
		t.Fatal(err)
	}
	suite.Commit(t, db.Engine(), suite.Set("k", "1"))
	if err := tx.Commit(ctx); err != nil {
		t.Errorf("Commit of a transaction that only read: %v", err)
	}
}

// testEngineCommits: commits of the engine itself count like those of transactions.
func testEngineCommits(t *testing.T, db *txn.DB) {
	for _, durable := range []string{"", " durable"} {
		for _, c := range []conflictCase{
			{"set", "get k", "set k 1", true},
			{"cleared", "get k", "clear k", true},
			{"range cleared", "get k", "clearrange j l", true},
			{"nearly all cleared", "get k", `clearrange "" z`, true},
			{"another set", "get k", "set l 1", false},
			{"set in a range", "scan a z", "set q 1", true},
			{"set outside", "scan a c", "set q 1", false},
		} {
			play(t, db, "engine: set k 0; commit",
				"t: begin; "+c.steps,
				"engine: "+c.others+"; commit"+durable,
				// What it reads now it reads in its old state, and it is of no use.
				"t: "+c.steps+"; set zout 1; commit"+must(db, !c.conflict))
		}
	}
	// A check that doesn't hold changes nothing, so it is nothing to conflict with.
	play(t, db, "t: begin; get k", "engine: is k never; set k 2; commit", "t: set zout 2; commit = ok")
}

// testLongKeys: reads of keys and ranges that differ only behind a long prefix all
// count, in any number, whatever an engine knows of their order.
func testLongKeys(t *testing.T, db *txn.DB) {
	for _, c := range []struct{ reads, write string }{
		{`get long"a"`, `set long"a" 1`},
		{`scan long"a" long"b"`, `set long"a" 1`},
		{`get long"a"; scan long"m" long"z"`, `set long"a" 1`},
		{`scan long"a" long"b"; scan long"m" long"n"`, `set long"m" 1`},
		{`scan long"a" long"b"; scan long"f" long"g"; scan long"m" long"n"`, `set long"m" 1`},
		{`set long"c" nil; scan long"a" long"z"`, `clear long"m"; set long"n" 0`},
		{`scan long"" long"b"; scan long"y" long"z"`, `set long"a" 1`},
	} {
		play(t, db, `engine: set long"a" 0; set long"m" 0; commit`, "t: begin; "+c.reads, "engine: "+c.write+"; commit", "t: set zout 1; commit = conflict")
	}
}
