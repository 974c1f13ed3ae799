package suite

import (
	"context"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

var ctx = context.Background()

// Set sets a key.
func Set(key, value string) kv.Op { return kv.Set([]byte(key), []byte(value)) }

// Del clears a key.
func Del(key string) kv.Op { return kv.Clear([]byte(key)) }

// DelRange clears the keys from start to before end.
func DelRange(start, end string) kv.Op { return kv.ClearRange([]byte(start), []byte(end)) }

// Is is a check of a key's value.
func Is(key, value string) kv.Check { return kv.Check{Key: []byte(key), Value: []byte(value)} }

// Absent is a check that a key is missing.
func Absent(key string) kv.Check { return kv.Check{Key: []byte(key), Absent: true} }

// Between is the keys from start to before end.
func Between(start, end string) kv.Range { return kv.Range{Start: []byte(start), End: []byte(end)} }

// Commit applies ops, which must succeed. It doesn't wait for durability: the
// suite is about what readers see.
func Commit(t testing.TB, eng kv.Engine, ops ...kv.Op) {
	t.Helper()
	if err := eng.Commit(ctx, &kv.Commit{Ops: ops, Durability: kv.Applied}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// Fill sets every key to its own name in upper case.
func Fill(t testing.TB, eng kv.Engine, keys ...string) {
	t.Helper()
	var ops []kv.Op
	for _, k := range keys {
		ops = append(ops, Set(k, strings.ToUpper(k)))
	}
	Commit(t, eng, ops...)
}

// Pattern returns n bytes that differ for every seed and are hard to compress.
func Pattern(n int, seed uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}
