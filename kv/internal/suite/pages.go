package suite

import (
	"encoding/binary"
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

// What benchmarks store: entries of the size of a page, that don't compress.
const (
	PageBytes = 4096
	Pages     = 10_000
)

// PageKey writes the i-th key: as long as those of an actor's pages are.
func PageKey(dst []byte, i uint64) []byte {
	dst = append(dst[:0], "actor/0123456789abcdef/data/"...)
	return binary.BigEndian.AppendUint64(dst, i)
}

// PageStore returns an engine with so many pages.
func PageStore(b *testing.B, open Opener) kv.Engine {
	b.Helper()
	eng := Start(b, open)
	var ops []kv.Op
	for i := range uint64(Pages) {
		ops = append(ops, kv.Set(PageKey(nil, i), Pattern(PageBytes, i)))
		if len(ops) == 100 {
			Commit(b, eng, ops...)
			ops = ops[:0]
		}
	}
	return eng
}

// PageCommit returns a commit of n pages and a function that gives it the keys
// of the i-th round: overwrites, spread over the store.
func PageCommit(n int, d kv.Durability) (*kv.Commit, func(i uint64)) {
	c := &kv.Commit{Durability: d}
	for i := range n {
		c.Ops = append(c.Ops, kv.Set(PageKey(nil, 0), Pattern(PageBytes, uint64(i))))
	}
	return c, func(i uint64) {
		for j := range c.Ops {
			c.Ops[j].Key = PageKey(c.Ops[j].Key, (i*7919+uint64(j))%Pages)
		}
	}
}
