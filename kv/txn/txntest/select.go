package txntest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testSelectors: all selectors with small offsets, those of the four constructors among them.
func testSelectors(t *testing.T, db *txn.DB) {
	play(t, db, "engine: set b B; set d D; set f F; set h H; commit", "t: begin", selectAll())
}

// selectAll selects in all ways about keys a to i, in a transaction t.
func selectAll() string {
	var lines []string
	for k := range strings.SplitSeq(`"" a b c d e f g h i`, " ") {
		for offset := -5; offset <= 6; offset++ {
			lines = append(lines, fmt.Sprintf("t: key %s %d; key %[1]s %[2]d orequal; snapshot key %[1]s %[2]d; snapshot key %[1]s %[2]d orequal", k, offset))
		}
	}
	return strings.Join(lines, "\n")
}

// testOwnSelectors: selectors count own writes, and don't count what they cleared.
func testOwnSelectors(t *testing.T, db *txn.DB) {
	for _, steps := range []string{
		"set c 1",
		"set a 1; set i 1",
		"clear d",
		"clear b; clear h",
		"clearrange c g",
		"clearrange a z",
		"clearrange a z; set e 1",
		"clearrange c g; set d 1; set e 1; clear e",
		"add c 1; add d 1",
	} {
		t.Run(steps, func(t *testing.T) {
			play(t, db, "engine: set b B; set d D; set f F; set h H; commit", "t: begin; "+steps+"; snapshot get zz", selectAll())
		})
	}
}

// testScanSelectors: ranges between selected keys.
func testScanSelectors(t *testing.T, db *txn.DB) {
	suite.Fill(t, db.Engine(), "a", "b", "c", "d", "e")
	ge := func(k string) txn.Selector { return txn.FirstGreaterOrEqual([]byte(k)) }
	gt := func(k string) txn.Selector { return txn.FirstGreaterThan([]byte(k)) }
	lt := func(k string) txn.Selector { return txn.LastLessThan([]byte(k)) }
	le := func(k string) txn.Selector { return txn.LastLessOrEqual([]byte(k)) }
	view(t, db, func(tx *txn.Tx) {
		for i, tt := range []struct {
			r    txn.SelectorRange
			want string
		}{
			{txn.SelectorRange{Begin: ge("b"), End: ge("d")}, "b c"},
			{txn.SelectorRange{Begin: gt("b"), End: ge("d")}, "c"},
			{txn.SelectorRange{Begin: ge("b"), End: gt("d")}, "b c d"},
			{txn.SelectorRange{Begin: gt("b"), End: gt("d")}, "c d"},
			{txn.SelectorRange{Begin: gt("b"), End: gt("e")}, "c d e"},
			{txn.SelectorRange{Begin: lt("c"), End: le("d")}, "b c"},
			{txn.SelectorRange{Begin: lt("a"), End: ge("b")}, "a"},
			{txn.SelectorRange{Begin: ge("c"), End: ge("z")}, "c d e"},
			{txn.SelectorRange{Begin: ge("z"), End: ge("zz")}, ""},
			{txn.SelectorRange{Begin: ge("a"), End: lt("a")}, ""},
			{txn.SelectorRange{Begin: ge("d"), End: ge("b")}, ""},
			{txn.SelectorRange{Begin: ge("a"), End: ge("z"), Limit: 2}, "a b"},
			{txn.SelectorRange{Begin: ge("a"), End: ge("z"), Limit: 2, Reverse: true}, "e d"},
		} {
			for _, s := range []string{"", " (snapshot)"} {
				seq := tx.ScanSelectors(ctx, tt.r)
				if s != "" {
					seq = tx.Snapshot().ScanSelectors(ctx, tt.r)
				}
				var got []string
				for e, err := range seq {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, string(e.Key))
				}
				if got := strings.Join(got, " "); got != tt.want {
					t.Errorf("case %s%s: got %q, want %q", fmt.Sprint(i), s, got, tt.want)
				}
			}
		}
	})
}
