package txntest

import (
	"strings"
	"testing"
)

// reads and appends are steps of a record.
func reads(list int, seen ...int) txStep { return txStep{list: list, read: seen} }
func appends(list, n int) txStep         { return txStep{list: list, append: n} }

// TestCheckHistory: histories that no order allows are found, each by its name in
// the literature, and serializable ones are not.
func TestCheckHistory(t *testing.T) {
	rec := func(name string, began, ended int64, steps ...txStep) txRecord {
		return txRecord{name: name, began: began, ended: ended, steps: steps}
	}
	end := func(steps ...txStep) txRecord { return rec("end", 100, 101, steps...) }
	for _, tt := range []struct {
		name     string
		history  []txRecord
		realTime bool
		want     string // part of the error
	}{
		{"nothing", []txRecord{end()}, true, ""},
		{"one after the other", []txRecord{
			rec("A", 1, 2, appends(0, 1)), rec("B", 3, 4, reads(0, 1), appends(0, 2)), end(reads(0, 1, 2)),
		}, true, ""},
		{"lost update", []txRecord{
			rec("A", 1, 4, reads(0), appends(0, 1)), rec("B", 2, 3, reads(0), appends(0, 2)), end(reads(0, 2)),
		}, false, "lost update"},
		{"lost update that left both", []txRecord{
			rec("A", 1, 4, reads(0), appends(0, 1)), rec("B", 2, 3, reads(0), appends(0, 2)), end(reads(0, 1, 2)),
		}, false, "no order"},
		{"write skew", []txRecord{
			rec("A", 1, 4, reads(0), appends(1, 1)), rec("B", 2, 3, reads(1), appends(0, 2)), end(reads(0, 2), reads(1, 1)),
		}, false, "rw"},
		{"dirty read", []txRecord{rec("A", 1, 2, reads(0, 7)), end(reads(0))}, false, "has read"},
		{"read of what never was", []txRecord{
			rec("A", 1, 2, appends(0, 1)), rec("B", 1, 2, appends(0, 2)), rec("C", 1, 2, reads(0, 2)), end(reads(0, 1, 2)),
		}, false, "has read"},
		{"write that nobody made", []txRecord{rec("A", 1, 2, appends(0, 1)), end(reads(0, 1, 2))}, false, "with 1 numbers"},
		{"write cycle", []txRecord{
			rec("A", 1, 4, appends(0, 1), appends(1, 1)), rec("B", 2, 3, appends(0, 2), appends(1, 2)), end(reads(0, 1, 2), reads(1, 2, 1)),
		}, false, "ww"},
		{"circular information flow", []txRecord{
			rec("A", 1, 4, appends(0, 1), reads(1, 2)), rec("B", 2, 3, appends(1, 2), reads(0, 1)), end(reads(0, 1), reads(1, 2)),
		}, false, "wr"},
		{"read skew", []txRecord{
			rec("A", 1, 4, reads(0), reads(1, 1)), rec("B", 2, 3, appends(0, 1), appends(1, 1)), end(reads(0, 1), reads(1, 1)),
		}, false, "no order"},
		{"stale read", []txRecord{
			rec("A", 1, 2, appends(0, 1)), rec("B", 3, 4, reads(0)), end(reads(0, 1)),
		}, true, "time"},
		{"stale read without a clock", []txRecord{
			rec("A", 1, 2, appends(0, 1)), rec("B", 3, 4, reads(0)), end(reads(0, 1)),
		}, false, ""},
		{"reads own append", []txRecord{rec("A", 1, 2, appends(0, 1), reads(0, 1)), end(reads(0, 1))}, false, "says nothing"},
		{"three in a ring", []txRecord{
			rec("A", 1, 9, reads(0), appends(1, 1)), rec("B", 2, 9, reads(1), appends(2, 2)), rec("C", 3, 9, reads(2), appends(0, 3)),
			end(reads(0, 3), reads(1, 1), reads(2, 2)),
		}, true, "A -rw"},
	} {
		err := checkHistory(tt.history, tt.realTime)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
}
