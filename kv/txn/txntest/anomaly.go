package txntest

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testLostUpdate: two add to what they have read.
func testLostUpdate(t *testing.T, db *txn.DB) {
	play(t, db, `engine: set n 5; commit
		a: begin; get n = "5"; set n 6
		b: begin; get n = "5"; set n 6
		a: commit = ok
		b: commit = conflict`)
}

// testWriteSkew: two read both keys, and each writes the other one. Reads that don't
// count allow it, on an engine where that is so.
func testWriteSkew(t *testing.T, db *txn.DB) {
	play(t, db, `engine: set a 1; set b 1; commit
		x: begin; get a; get b
		y: begin; get a; get b
		x: set a -1; commit = ok
		y: set b -1; commit = conflict`)
	play(t, db, `engine: set a 1; set b 1; commit
		x: begin; snapshot get a; snapshot get b
		y: begin; snapshot get a; snapshot get b
		x: set a -1; commit
		y: set b -1; commit`+must(db, true))
}

// testPhantom: two count what is there, and each adds to it: by a scan, a selector
// for a gap, and missing keys.
func testPhantom(t *testing.T, db *txn.DB) {
	for name, count := range map[string]string{
		"scan": "scan p q", "reverse scan": "scan p q reverse", "selector": "key p 1", "missing keys": "get p1; get p2",
	} {
		t.Run(name, func(t *testing.T) {
			play(t, db, "engine: set z end; commit", "x: begin; "+count, "y: begin; "+count,
				"x: set p1 1; commit = ok", "y: set p2 1; commit = conflict")
		})
	}
}

// testReadOnlyAnomaly: a deposit, and a withdrawal that pays a fee because it hasn't
// seen the deposit, can be put in an order; not with a report between them that has
// seen the deposit and not the withdrawal. Fekete, O'Neil, O'Neil: A Read-Only
// Transaction Anomaly Under Snapshot Isolation, 2004.
func testReadOnlyAnomaly(t *testing.T, db *txn.DB) {
	play(t, db, `engine: set checking 0; set saving 0; commit
		withdraw: begin; get checking; get saving
		deposit: begin; get saving; set saving 20; commit = ok
		report: begin; get checking = "0"; get saving = "20"; commit = ok
		withdraw: set checking -11; commit = conflict`)
}

// testCounter: many goroutines add to one counter by reading and writing it, and no
// addition is lost, also not by one that began while another was being committed.
// Between two of them money moves between accounts, of which others see one state.
func testCounter(t *testing.T, db *txn.DB) {
	const workers, each, accounts = 8, 15, 4
	h := &history{}
	err := h.run(db, workers, func(w int) error {
		for i := range each {
			from, to := fmt.Sprint("account", (w+i)%accounts), fmt.Sprint("account", (w+2*i+1)%accounts)
			for name, work := range map[string]func(do doer) error{
				"counts": func(do doer) error { return add(do, "n", 1) },
				"moves":  func(do doer) error { return errors.Join(add(do, from, -1), add(do, to, 1)) },
			} {
				if err := h.transaction(w, fmt.Sprintf("%s %d.%d", name, w, i), db.Update, work); err != nil {
					return err
				}
			}
			if err := h.transaction(w, fmt.Sprintf("sees %d.%d", w, i), db.View, func(do doer) error {
				_, err := do("scan account b")
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	suite.WantGet(t, db.Engine(), "n", strconv.Itoa(workers*each))
}

// add adds to a number by reading and writing it.
func add(do doer, key string, by int) error {
	saw, err := do("get " + key)
	if err != nil {
		return err
	}
	text, _ := strconv.Unquote(saw)
	n, _ := strconv.Atoi(text) // 0 for none
	_, err = do(fmt.Sprintf("set %s %d", key, n+by))
	return err
}
