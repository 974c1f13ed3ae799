package batch_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/batch"
)

func TestDefaultLimits(t *testing.T) {
	want := batch.Limits{KeySize: 2048, ValueSize: 131072, Entries: 128, Payload: 999424, Storage: 1073741824}
	if got := batch.DefaultLimits(); got != want {
		t.Errorf("DefaultLimits = %+v, want %+v", got, want)
	}
	if got := (batch.Limits{}).OrDefault(); got != want {
		t.Errorf("OrDefault of nothing = %+v, want %+v", got, want)
	}
	own := batch.Limits{KeySize: 1, ValueSize: 2, Entries: 3, Payload: 4, Storage: 5, AtomicBatches: 6}
	if got := own.OrDefault(); got != own {
		t.Errorf("OrDefault of %+v = %+v", own, got)
	}
}

func TestCheck(t *testing.T) {
	bytesOf := func(n int) []byte { return bytes.Repeat([]byte("k"), n) }
	small := batch.Limits{KeySize: 12, ValueSize: 20, Payload: 25}
	for _, c := range []struct {
		name        string
		limits      batch.Limits
		op          batch.Op
		err         error
		size, limit int
	}{
		{"longest key", batch.Limits{}, batch.Op{Key: bytesOf(2046)}, nil, 0, 0},
		{"key too long", batch.Limits{}, batch.Op{Key: bytesOf(2047)}, batch.ErrKeyTooLong, 2049, 2048},
		{"key too long to delete", batch.Limits{}, batch.Op{Kind: batch.Delete, Key: bytesOf(2047)}, batch.ErrKeyTooLong, 2049, 2048},
		{"largest value", batch.Limits{}, batch.Op{Value: bytesOf(128 << 10)}, nil, 0, 0},
		{"value too large", batch.Limits{}, batch.Op{Key: bytesOf(1), Value: bytesOf(128<<10 + 1)}, batch.ErrValueTooLarge, 131073, 131072},
		{"longest ends", batch.Limits{}, batch.Op{Kind: batch.DeleteRange, Key: bytesOf(2046), Value: bytesOf(2046)}, nil, 0, 0},
		{"start too long", batch.Limits{}, batch.Op{Kind: batch.DeleteRange, Key: bytesOf(2047)}, batch.ErrKeyTooLong, 2049, 2048},
		{"end too long", batch.Limits{}, batch.Op{Kind: batch.DeleteRange, Value: bytesOf(2047)}, batch.ErrKeyTooLong, 2049, 2048},
		{"put of full payload", small, batch.Op{Key: bytesOf(10), Value: bytesOf(13)}, nil, 0, 0},
		{"put over payload", small, batch.Op{Key: bytesOf(10), Value: bytesOf(14)}, batch.ErrTooLarge, 26, 25},
		{"delete over payload", batch.Limits{Payload: 5}, batch.Op{Kind: batch.Delete, Key: bytesOf(4)}, batch.ErrTooLarge, 6, 5},
		{"range over payload", batch.Limits{Payload: 5}, batch.Op{Kind: batch.DeleteRange, Key: bytesOf(2), Value: bytesOf(2)}, batch.ErrTooLarge, 6, 5},
	} {
		checkLimitError(t, c.name, c.limits.Check(c.op), batch.LimitError{Err: c.err, Size: c.size, Limit: c.limit})
	}
}

// checkLimitError compares err with want, whose Key is compared if it isn't nil.
func checkLimitError(t *testing.T, name string, err error, want batch.LimitError) {
	t.Helper()
	if want.Err == nil {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	var got *batch.LimitError
	if !errors.As(err, &got) || !errors.Is(err, want.Err) || got.Size != want.Size || got.Limit != want.Limit {
		t.Errorf("%s: error %v, want %v with size %d, limit %d", name, err, want.Err, want.Size, want.Limit)
		return
	}
	if want.Key != nil && !bytes.Equal(got.Key, want.Key) {
		t.Errorf("%s: error names key %q, want %q", name, got.Key, want.Key)
	}
}

func TestCheckSubs(t *testing.T) {
	for _, c := range []struct {
		atomicBatches int
		mode          batch.Mode
		n             int
		ok            bool
	}{
		{0, batch.Atomic, 1000, true},
		{1, batch.Atomic, 0, true},
		{1, batch.Atomic, 1, true},
		{1, batch.Atomic, 2, false},
		{3, batch.Atomic, 3, true},
		{3, batch.Atomic, 4, false},
		{1, batch.Ordered, 1000, true},
	} {
		err := batch.Limits{AtomicBatches: c.atomicBatches}.CheckSubs(c.mode, c.n)
		want := batch.LimitError{Size: c.n, Limit: c.atomicBatches}
		if !c.ok {
			want.Err = batch.ErrTooLarge
		}
		checkLimitError(t, c.mode.String(), err, want)
	}
}

func TestLimitErrorText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{batch.Limits{}.Check(batch.Op{Key: []byte("a\x00b"), Value: make([]byte, 131073)}),
			`batch: value too large: key "a\x00b": 131073 bytes of the value, limit 131072`},
		{batch.Limits{KeySize: 70}.Check(batch.Op{Key: bytes.Repeat([]byte("k"), 69)}),
			`batch: key too long: key "` + strings.Repeat("k", 64) + `"… (69 bytes): 71 bytes of the key, limit 70`},
		{batch.Limits{ValueSize: 1}.Check(batch.Op{Value: []byte("vv")}),
			`batch: value too large: key "": 2 bytes of the value, limit 1`},
		{batch.Limits{AtomicBatches: 1}.CheckSubs(batch.Atomic, 2),
			`batch: too large: 2 sub-batches of an atomic batch, limit 1`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("error %v, want %s", c.err, c.want)
		}
	}
}

// TestLimitErrorOwnsItsKey: the error stays true when the batch is reused.
func TestLimitErrorOwnsItsKey(t *testing.T) {
	var b batch.Batch
	b.Put([]byte("first"), make([]byte, 2))
	_, err := b.Split(batch.Limits{ValueSize: 1}, nil)
	b.Reset()
	b.Put([]byte("other"), nil)
	checkLimitError(t, "reused", err, batch.LimitError{Err: batch.ErrValueTooLarge, Key: []byte("first"), Size: 2, Limit: 1})
}
