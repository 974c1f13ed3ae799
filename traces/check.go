package traces

import (
	"context"
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
)

// check compares the index with the chunks.
func (s *scanner) check(ctx context.Context) (findings []string, err error) {
	find := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	for _, err := range s.cat.bad {
		find("a note of the index: %v", err)
	}
	start, end := chunksRange(s.cat.layout)
	stored := map[int64]ledger{}
	err = s.stored(ctx, []keyRange{{start, end}}, func(c keyed) error {
		l := stored[c.key.bucket]
		l.chunks, l.next = l.chunks+1, c.key.id+1
		l.bytes += chunkBytes(s.cat.layout, c.key, len(c.append([]byte{0, 0})))
		stored[c.key.bucket] = l
		if k, ok := s.cat.find(c.key); ok {
			s.checkCovered(k, c, find)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("traces: check: %w", err)
	}
	for start, l := range s.cat.ledgers {
		if got := stored[start]; got.chunks != l.chunks || got.next > l.next || got.bytes != l.bytes {
			find("bucket %d: %d chunks of %d bytes before %d, and the note says %d of %d before %d",
				start, got.chunks, got.bytes, got.next, l.chunks, l.bytes, l.next)
		}
	}
	for _, c := range s.cat.chunks {
		if c.key.id >= stored[c.key.bucket].next && stored[c.key.bucket].chunks > 0 {
			find("chunk %d/%d is in the index, and not there", c.key.bucket, c.key.id)
		}
	}
	for _, d := range s.damaged {
		find("%s: %v", d.Words, d.Err)
	}
	return findings, nil
}

// checkCovered compares what the index says of a chunk with the chunk.
func (s *scanner) checkCovered(k *covered, c keyed, find func(format string, args ...any)) {
	for _, r := range c.timed(func(*record, []string) *Resource { return nil }) {
		if r.at < k.min || r.at >= k.max {
			find("chunk %d/%d: a record at %d, and the index says [%d, %d)", c.key.bucket, c.key.id, r.at, k.min, k.max)
			return
		}
		if r.base() && !k.has(hashTrace(r.record.trace)) {
			find("chunk %d/%d: the index doesn't have the trace %s", c.key.bucket, c.key.id, r.record.trace)
			return
		}
	}
}

// Check reports what is wrong with the traces that s shows, beside the chunks that are
// damaged, which Read reports: an index that promises what isn't there, or can't be read.
// It reads every chunk. An error is that of reading.
func Check(ctx context.Context, s *actorstore.Snapshot) (findings []string, err error) {
	sc, err := newScanner(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	return sc.check(ctx)
}
