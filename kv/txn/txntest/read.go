package txntest

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// testBasics: what one transaction writes, the next one reads.
func testBasics(t *testing.T, db *txn.DB) {
	update(t, db, func(tx *txn.Tx) {
		suite.WantGet(t, tx, "a", "-")
		do(t, tx, "set a 1; set b 2; set c 3; set d 4")
	})
	suite.WantScan(t, db.Engine(), kv.Range{}, "a=1 b=2 c=3 d=4")
	view(t, db, func(tx *txn.Tx) {
		suite.WantGet(t, tx, "a", "1")
		suite.WantGet(t, tx, "e", "-")
		suite.WantGet(t, tx, "", "-")
		suite.WantScan(t, tx, suite.Between("b", "d"), "b=2 c=3")
		suite.WantScan(t, tx, kv.Range{Reverse: true, Limit: 2}, "d=4 c=3")
		suite.WantScan(t, tx, suite.Between("b", "b"), "")
		suite.WantScan(t, tx, suite.Between("d", "b"), "")
		suite.WantScan(t, tx, kv.Range{End: []byte{}}, "")
	})
	update(t, db, func(tx *txn.Tx) { do(t, tx, "clear a; clearrange b d") })
	suite.WantScan(t, db.Engine(), kv.Range{}, "d=4")
	// An error rolls back, a panic too, and both get through.
	mine := errors.New("mine")
	err := db.Update(ctx, func(tx *txn.Tx) error { do(t, tx, "get d; set d 5"); return mine })
	if err != mine {
		t.Errorf("Update: got error %v, want the closure's own", err)
	}
	func() {
		defer func() {
			if r := recover(); r != "boo" {
				t.Errorf("recovered %v", r)
			}
		}()
		err := db.Update(ctx, func(tx *txn.Tx) error { do(t, tx, "get d; set d 6"); panic("boo") })
		t.Errorf("Update returned %v from a panic", err)
	}()
	// The next one isn't held up by what these left.
	update(t, db, func(tx *txn.Tx) { suite.WantGet(t, tx, "d", "4"); do(t, tx, "set e 5") })
	suite.WantScan(t, db.Engine(), kv.Range{}, "d=4 e=5")
}

// testOwnWrites: a transaction reads what it wrote, whatever the engine has.
func testOwnWrites(t *testing.T, db *txn.DB) {
	for _, tt := range []struct{ name, steps, want string }{
		{"nothing", "get a", "a=A b=B c=C d=D"},
		{"set", "set a 1; set bb 2", "a=1 b=B bb=2 c=C d=D"},
		{"the last set wins", "set n 1; set n 2; set n 3", "a=A b=B c=C d=D n=3"},
		{"clear", "clear a; clear n", "b=B c=C d=D"},
		{"set, clear", "set n 1; clear n; set a 1; clear a", "b=B c=C d=D"},
		{"set, clear, set", "set n 1; clear n; set n 2", "a=A b=B c=C d=D n=2"},
		{"clear range", "clearrange b d", "a=A d=D"},
		{"clear range of own keys", "set bb 1; set cc 2; clearrange bb cc", "a=A b=B cc=2 d=D"},
		{"clear range, set", "clearrange a d; set b 1", "b=1 d=D"},
		{"clear range, set, clear", "clearrange a d; set b 1; clear b", "d=D"},
		{"clear range twice", "clearrange a c; set b 1; clearrange b e", ""},
		{"clear ranges that touch", "clearrange a b; clearrange b c; set b 1", "b=1 c=C d=D"},
		{"clear range within one", "clearrange a e; clearrange b c; set b 1", "b=1"},
		{"clear range around one", "clearrange b c; set b 1; clearrange a e; set d 1", "d=1"},
		{"clear ranges apart", "clearrange c d; clearrange a b", "b=B d=D"},
		{"inverted clear range", "clearrange c a; clearrange b b", "a=A b=B c=C d=D"},
		{"everything", "clearrange \x00 \xff", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, db, "engine: set a A; set b B; set c C; set d D; commit", "t: begin; "+tt.steps, readAll("t: "), readAll("t: snapshot "), "t: commit = ok",
				"u: begin", readAll("u: "))
			suite.WantScan(t, db.Engine(), kv.Range{}, tt.want)
		})
	}
}

// readAll reads a store of a few keys in all ways there are.
func readAll(reader string) string {
	var lines []string
	for _, k := range strings.Fields("a b bb c cc d n") {
		lines = append(lines, reader+"get "+k)
	}
	for _, bounds := range []string{"nil nil", "a z", "b d", "bb c\x00", "nil cc", "cc nil", "n a", "e f"} {
		for _, limit := range []string{"", " limit 1", " limit 2", " limit 3", " limit 4", " limit 5", " limit 6", " limit 7"} {
			lines = append(lines, reader+"scan "+bounds+limit, reader+"scan "+bounds+limit+" reverse")
		}
	}
	return strings.Join(lines, "\n")
}

// testOwnScans: own writes take their place in scans of either direction, before
// the limit is counted.
func testOwnScans(t *testing.T, db *txn.DB) {
	play(t, db, `engine: set bb B; set d D; set f F; set h H; commit
		t: begin; set a 1; clear d; set c 2; clearrange f g; set ff 3; set h 4; set i 5`,
		readAll("t: "), readAll("t: snapshot "), `t: scan fa fb = -; scan fa nil limit 1 = "ff"="3"; scan nil fb limit 1 reverse = "c"="2"
		t: scan "i\x00" nil = -; scan nil a reverse = -; commit = ok`)
	suite.WantScan(t, db.Engine(), kv.Range{}, "a=1 bb=B c=2 ff=3 h=4 i=5")
}

// testOneState: all reads are of the state at the first one, with what the
// transaction wrote, and it begins at the first read, not before.
func testOneState(t *testing.T, db *txn.DB) {
	reads := `t: snapshot scan nil nil = "a"="before" "b"="B" "c"="C" "own"="1"
		t: snapshot scan nil nil reverse = "own"="1" "c"="C" "b"="B" "a"="before"
		t: snapshot get b = "B"; snapshot get d = -`
	play(t, db, `engine: set a A; set b B; set c C; commit
		t: begin; set own 1
		engine: set a before; commit
		t: snapshot get a = "before"
		engine: set a after; set b after; clear c; set d after; commit
		u: begin; set e 1; clear b; commit = ok`,
		reads, reads, `t: cancel
		engine: scan nil nil = "a"="after" "d"="after" "e"="1"`)
}

// testSnapshot: reads that don't count see the state and own writes all the same.
func testSnapshot(t *testing.T, db *txn.DB) {
	play(t, db, `engine: set a A; set b B; set c C; commit
		t: begin; snapshot scan nil nil = "a"="A" "b"="B" "c"="C"
		t: set a modified; clearrange b c; clear c; set d new`,
		readAll("t: "), readAll("t: snapshot "), `t: key a 1 orequal = "d"; commit = ok
		engine: scan nil nil = "a"="modified" "d"="new"`)
}

// testLoops: a loop over a scan may read and write; it goes on as it began.
func testLoops(t *testing.T, db *txn.DB) {
	suite.Fill(t, db.Engine(), "a", "b", "c", "d")
	for _, reverse := range []bool{false, true} {
		tx := begin(t, db)
		do(t, tx, "set bb 1")
		n := 0
		for e, err := range tx.Scan(ctx, kv.Range{Reverse: reverse}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			key := string(e.Key)
			do(t, tx, "clear "+key+"; set "+key+"x 1; set \x00"+key+" 1; add bb 1; clearrange c d")
			for _, inner := range []kv.Range{{}, {Reverse: true, Limit: 2}} {
				if err := drain(tx, inner, 0); err != nil {
					t.Fatal(err)
				}
			}
			look(t, tx, "get b; get bb; get bbx")
		}
		if n != 5 {
			t.Errorf("a loop that writes had %d turns, want 5", n)
		}
		tx.Cancel()
	}
}

// testBinary: values are bytes, also those that look like something.
func testBinary(t *testing.T, db *txn.DB) {
	like := suite.Pattern(80, 1)
	like[0] = 0x33
	copy(like[76:], []byte{1, 0, 0, 0})
	update(t, db, func(tx *txn.Tx) {
		if err := errors.Join(tx.Set([]byte("like"), like), tx.Set([]byte("\xff\xff\xff"), nil), tx.Set([]byte{0}, []byte{})); err != nil {
			t.Fatal(err)
		}
		suite.WantGet(t, tx, "like", string(like))
		suite.WantGet(t, tx, "\xff\xff\xff", "")
	})
	view(t, db, func(tx *txn.Tx) {
		suite.WantGet(t, tx, "like", string(like))
		suite.WantGet(t, tx, "\xff\xff\xff", "")
		suite.WantGet(t, tx, "\x00", "")
		suite.WantScan(t, tx, kv.Range{Reverse: true, Limit: 1}, "\xff\xff\xff=")
		suite.WantScan(t, tx, kv.Range{Limit: 1}, "\x00=")
	})
}
