package txn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// FuzzVersionstamped stores any bytes as a versionstamped key and value: what doesn't fit
// is refused, and of what does just the 10 bytes at the offset change.
func FuzzVersionstamped(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 14))
	f.Add(binary.LittleEndian.AppendUint32([]byte("head..........tail"), 4))
	f.Add(binary.LittleEndian.AppendUint32([]byte("head..........tail"), 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := len(b) - 4
		fits := n >= 0 && n <= 10_000 && uint64(binary.LittleEndian.Uint32(b[n:]))+10 <= uint64(n)
		db, before := memDB(t, nil), bytes.Clone(b)
		var tx *txn.Tx
		var kerr, verr error
		err := db.Update(bg, func(now *txn.Tx) error {
			tx = now
			kerr, verr = tx.SetVersionstampedKey(b, nil), tx.SetVersionstampedValue([]byte("value"), b)
			return nil
		})
		if err != nil || !bytes.Equal(b, before) {
			t.Fatalf("%v, %x became %x", err, before, b)
		}
		if n > 10_000 {
			return // over a limit, or the value alone fits
		}
		if !fits {
			if !errors.Is(kerr, kv.ErrInvalid) || !errors.Is(verr, kv.ErrInvalid) {
				t.Fatalf("%x: %v, %v", b, kerr, verr)
			}
			return
		}
		stamp, err := tx.Versionstamp()
		if err = errors.Join(err, kerr, verr); err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		want := bytes.Clone(b[:n])
		copy(want[binary.LittleEndian.Uint32(b[n:]):], stamp[:])
		if bytes.Equal(want, []byte("value")) {
			return
		}
		v, err := db.Engine().Get(bg, []byte("value"), nil)
		_, kerr = db.Engine().Get(bg, want, nil)
		if err = errors.Join(err, kerr); err != nil || !bytes.Equal(v, want) {
			t.Fatalf("%x: stored %x, %v, want %x", b, v, err, want)
		}
	})
}
