package txntest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testSelectors: the four selectors and all other offsets, against the sorted keys.
func testSelectors(t *testing.T, db *txn.DB) {
	keys := []string{"b", "d", "f", "h"}
	suite.Fill(t, db.Engine(), keys...)
	view(t, db, func(tx *txn.Tx) { wantSelected(t, tx, keys) })
}

// wantSelected checks all selectors about keys a to i.
func wantSelected(t *testing.T, tx *txn.Tx, keys []string) {
	t.Helper()
	at := func(i int) string {
		if i < 0 || i >= len(keys) {
			return "-"
		}
		return keys[i]
	}
	for _, k := range strings.Split("|a|b|c|d|e|f|g|h|i", "|") {
		less, lessOrEqual := 0, 0 // how many keys are
		for _, have := range keys {
			if have < k {
				less++
			}
			if have <= k {
				lessOrEqual++
			}
		}
		b := []byte(k)
		wantKey(t, tx, txn.FirstGreaterOrEqual(b), at(less))
		wantKey(t, tx, txn.FirstGreaterThan(b), at(lessOrEqual))
		wantKey(t, tx, txn.LastLessThan(b), at(less-1))
		wantKey(t, tx, txn.LastLessOrEqual(b), at(lessOrEqual-1))
		for offset := -5; offset <= 6; offset++ {
			wantKey(t, tx, txn.Selector{Key: b, Offset: offset}, at(less-1+offset))
			wantKey(t, tx, txn.Selector{Key: b, OrEqual: true, Offset: offset}, at(lessOrEqual-1+offset))
		}
	}
}

// testOwnSelectors: selectors count own writes, and don't count what they cleared.
func testOwnSelectors(t *testing.T, db *txn.DB) {
	for _, tt := range []struct{ steps, want string }{
		{"set c 1", "b c d f h"},
		{"set a 1; set i 1", "a b d f h i"},
		{"clear d", "b f h"},
		{"clear b; clear h", "d f"},
		{"clearrange c g", "b h"},
		{"clearrange a z", ""},
		{"clearrange a z; set e 1", "e"},
		{"clearrange c g; set d 1; set e 1; clear e", "b d h"},
		{"add c 1; add d 1", "b c d f h"},
	} {
		t.Run(tt.steps, func(t *testing.T) {
			reset(t, db)
			suite.Fill(t, db.Engine(), "b", "d", "f", "h")
			tx := begin(t, db)
			do(t, tx, tt.steps)
			wantSelected(t, tx, strings.Fields(tt.want))
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
