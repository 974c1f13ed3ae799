package txntest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// atomicCases are what every mutation makes of a value and a parameter, in hex; "-" is
// a missing value.
var atomicCases = []struct {
	m                   txn.Mutation
	value, param, after string
}{
	{txn.MutationAdd, "-", "2a00000000000000", "2a00000000000000"},
	{txn.MutationAdd, "2a00000000000000", "0a00000000000000", "3400000000000000"},
	{txn.MutationAdd, "3400000000000000", "ecffffffffffffff", "2000000000000000"},
	{txn.MutationAdd, "ffffffffffffff7f", "0100000000000000", "0000000000000080"},
	{txn.MutationAdd, "ffffffffffffffff", "0100000000000000", "0000000000000000"},
	{txn.MutationAdd, "ff", "01", "00"},
	{txn.MutationAdd, "ffff00", "010000", "000001"},
	{txn.MutationAdd, "ffffffffffffffff0000000000000000", "01000000000000000000000000000000", "00000000000000000100000000000000"},
	{txn.MutationAdd, "ff", "0100", "0001"},
	{txn.MutationAdd, "ffff", "01", "00"},
	{txn.MutationAdd, "0102", "", ""},
	{txn.MutationAdd, "", "05", "05"},
	{txn.MutationBitAnd, "f0", "aa", "a0"},
	{txn.MutationBitAnd, "-", "aa", "aa"},
	{txn.MutationBitAnd, "", "aa", "00"},
	{txn.MutationBitAnd, "f0ff", "aa", "a0"},
	{txn.MutationBitAnd, "f0", "aabb", "a000"},
	{txn.MutationBitOr, "f0", "0f", "ff"},
	{txn.MutationBitOr, "-", "f0", "f0"},
	{txn.MutationBitOr, "01", "0203", "0303"},
	{txn.MutationBitXor, "f0", "aa", "5a"},
	{txn.MutationBitXor, "-", "aa", "aa"},
	{txn.MutationBitXor, "ffff", "0f", "f0"},
	{txn.MutationMax, "0a", "14", "14"},
	{txn.MutationMax, "14", "0f", "14"},
	{txn.MutationMax, "-", "7b", "7b"},
	{txn.MutationMax, "ff", "01", "ff"},
	{txn.MutationMax, "ff00", "0001", "0001"},
	{txn.MutationMax, "00000000000000000000000000000080", "ffffffffffffffffffffffffffffff7f", "00000000000000000000000000000080"},
	{txn.MutationMax, "ffff", "05", "ff"},
	{txn.MutationMin, "0a", "05", "05"},
	{txn.MutationMin, "05", "0f", "05"},
	{txn.MutationMin, "-", "7b", "7b"},
	{txn.MutationMin, "", "7b", "00"},
	{txn.MutationMin, "ff", "01", "01"},
	{txn.MutationMin, "80", "7f", "7f"},
	{txn.MutationMin, "05", "0600", "0500"},
	{txn.MutationByteMax, "62616e616e61", "636865727279", "636865727279"},
	{txn.MutationByteMax, "636865727279", "6170706c65", "636865727279"},
	{txn.MutationByteMax, "-", "68", "68"},
	{txn.MutationByteMax, "61", "6162", "6162"},
	{txn.MutationByteMin, "62616e616e61", "6170706c65", "6170706c65"},
	{txn.MutationByteMin, "6170706c65", "636865727279", "6170706c65"},
	{txn.MutationByteMin, "-", "68656c6c6f", "68656c6c6f"},
	{txn.MutationByteMin, "6162", "61", "61"},
	{txn.MutationAppendIfFits, "-", "68656c6c6f", "68656c6c6f"},
	{txn.MutationAppendIfFits, "68656c6c6f", "20776f726c64", "68656c6c6f20776f726c64"},
	{txn.MutationAppendIfFits, "68", "", "68"},
	{txn.MutationCompareAndClear, "01", "01", "-"},
	{txn.MutationCompareAndClear, "01", "02", "01"},
	{txn.MutationCompareAndClear, "-", "", "-"},
	{txn.MutationCompareAndClear, "", "", "-"},
	{txn.MutationCompareAndClear, "01", "", "01"},
	{txn.MutationCompareAndClear, "01", "0100", "01"},
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testAtomic: every mutation, evaluated by the commit, and by a read before it.
func testAtomic(t *testing.T, db *txn.DB) {
	key := []byte("k")
	for _, c := range atomicCases {
		name := c.m.String() + " " + c.value + " " + c.param
		if len(name) > 60 {
			name = name[:60]
		}
		t.Run(name, func(t *testing.T) {
			want := c.after
			if want != "-" {
				want = string(unhex(t, want))
			}
			for _, read := range []bool{false, true} {
				store(t, db, c.value)
				update(t, db, func(tx *txn.Tx) {
					if err := tx.Atomic(c.m, key, unhex(t, c.param)); err != nil {
						t.Fatal(err)
					}
					if read {
						suite.WantGet(t, tx, "k", want)
						suite.WantGet(t, tx.Snapshot(), "k", want)
					}
				})
				suite.WantGet(t, db.Engine(), "k", want)
			}
		})
	}
	t.Run("AppendIfFits to the limit", func(t *testing.T) {
		big := bytes.Repeat([]byte("x"), 99_000)
		suite.Commit(t, db.Engine(), kv.Set(key, big))
		for _, n := range []int{2000, 1001, 1000, 1} {
			update(t, db, func(tx *txn.Tx) {
				if err := tx.Atomic(txn.MutationAppendIfFits, key, bytes.Repeat([]byte("y"), n)); err != nil {
					t.Fatal(err)
				}
			})
			if n == 1000 {
				big = append(big, bytes.Repeat([]byte("y"), n)...)
			}
			suite.WantGet(t, db.Engine(), "k", string(big))
		}
	})
	err := db.Update(ctx, func(tx *txn.Tx) error { return tx.Atomic(200, key, nil) })
	suite.WantErr(t, "an unknown mutation", err, kv.ErrInvalid)
}

// store makes the key "k" have a value in hex, or none.
func store(t testing.TB, db *txn.DB, value string) {
	t.Helper()
	if value == "-" {
		suite.Commit(t, db.Engine(), suite.Del("k"))
		return
	}
	suite.Commit(t, db.Engine(), kv.Set([]byte("k"), unhex(t, value)))
}

// testAtomicOwn: atomic operations after, before and between other writes of the
// same key.
func testAtomicOwn(t *testing.T, db *txn.DB) {
	for _, tt := range []struct{ steps, want string }{
		{"add k \x05", "\x0f"},
		{"add k \x05; add k \x03", "\x12"},
		{"set k \x01; add k \x05; add k \x03", "\x09"},
		{"clear k; add k \x05", "\x05"},
		{"clearrange a z; add k \x05", "\x05"},
		{"clearrange a z; add k \x05; clearrange a k", "\x05"},
		{"add k \x05; clear k", "-"},
		{"add k \x05; clear k; add k \x01", "\x01"},
		{"add k \x05; clearrange k l", "-"},
		{"add k \x05; set k \x01", "\x01"},
		{"add k \x05; set k \x01; add k \x02", "\x03"},
		{"set k \x01; clear k; add k \x02; clear k; set k \x04; add k \x04", "\x08"},
	} {
		t.Run(tt.steps, func(t *testing.T) {
			for _, read := range []string{"", "; get k; scan a z; snapshot scan nil nil limit 1 reverse"} {
				play(t, db, `engine: set k "\n"; commit`, "t: begin; "+strings.ReplaceAll(tt.steps, ";", read+";")+read+"; commit = ok")
				suite.WantGet(t, db.Engine(), "k", tt.want)
			}
		})
	}
}

// testAtomicParallel: concurrent additions, some of them beside reads and writes of
// other keys, all count, and on an exact engine none of them is tried twice.
func testAtomicParallel(t *testing.T, db *txn.DB) {
	const workers, each = 8, 25
	var attempts atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := db.Update(ctx, func(tx *txn.Tx) error {
					attempts.Add(1)
					return errors.Join(
						tx.Atomic(txn.MutationAdd, []byte("sum"), []byte{1, 0, 0, 0}),
						tx.Atomic(txn.MutationAdd, []byte("twice"), []byte{1, 0, 0, 0}),
						tx.Atomic(txn.MutationAdd, []byte("twice"), []byte{1, 0, 0, 0}))
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	suite.WantGet(t, db.Engine(), "sum", string([]byte{workers * each, 0, 0, 0}))
	suite.WantGet(t, db.Engine(), "twice", string([]byte{2 * workers * each & 0xff, 2 * workers * each >> 8, 0, 0}))
	if n := attempts.Load(); exact(db) && n != workers*each {
		t.Errorf("%d attempts at %d additions", n, workers*each)
	}
}
