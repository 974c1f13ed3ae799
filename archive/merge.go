package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

const (
	// mergeRuns is how many segments are put together, at least.
	mergeRuns = 16
	// maxMerged is how many bytes a segment that was put together has, at most, and maxRecords those of its records, which are in memory
	// then: compressed, a segment of zeros is a thousandth of them.
	maxMerged  = 8 << 20
	maxRecords = 64 << 20
)

// toMerge returns the segments at the end of a log that are to be put together, nil if it is too early. A segment is taken in if it isn't
// larger than twice all that follow it: so each byte is written again as often as the logarithm of their number.
func toMerge(log []numbered, least int) []numbered {
	from, total, records := len(log), int64(0), int64(0)
	for from > 0 && log[from-1].size <= max(2*total, minMerged) && total+log[from-1].size <= maxMerged && records+log[from-1].records <= maxRecords {
		from--
		total, records = total+log[from].size, records+log[from].records
	}
	if len(log)-from < least {
		return nil
	}
	return slices.Clone(log[from:])
}

// minMerged is up to which size a segment is small whatever follows it, in bytes.
const minMerged = 16 << 10

// weigh finds out how many bytes the records of segments have, of those of which that isn't known.
func (l *link) weigh(ctx context.Context, run []numbered) error {
	for i := range run {
		s := &run[i]
		if s.records > 0 {
			continue
		}
		err := l.retry(ctx, func() error {
			x, err := readIndex(ctx, l.bucket, s.name)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: %w", errMoved, err)
			}
			if err == nil {
				s.records = int64(x.size)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replace puts segments in the place of those of which they were made.
func replace(log, run []numbered, with ...numbered) []numbered {
	i := slices.IndexFunc(log, func(s numbered) bool { return s.first == run[0].first })
	return slices.Replace(log, i, i+len(run), with...)
}

// errMoved says that the bucket has other segments than the Writer knows.
var errMoved = errors.New("archive: something else has changed the segments")

// merge stores one segment in the place of several that follow each other, and removes those. The
// error is errMoved if something else has removed one, as Collect does.
func (l *link) merge(ctx context.Context, line uint64, run []numbered) (one numbered, err error) {
	z, err := newEncoder()
	if err != nil {
		return one, err
	}
	var b *builder
	err = l.retry(ctx, func() error {
		b, err = joined(ctx, l.bucket, run)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", errMoved, err)
		}
		return err
	})
	if err != nil {
		return one, err
	}
	data := b.encode(z)
	one = numbered{mergedName(line, b.first, b.last), b.first, b.last, int64(len(data)), int64(b.size)}
	if err := l.put(ctx, one.name, data, bucket.Once); err != nil && !errors.Is(err, bucket.ErrExists) { // it is of the same segments
		return one, err
	}
	for _, s := range run {
		if err := l.retry(ctx, func() error { return l.bucket.Delete(ctx, s.name) }); err != nil {
			return one, err
		}
	}
	return one, nil
}

// joined returns what segments that follow each other have together.
func joined(ctx context.Context, in bucket.Bucket, of []numbered) (*builder, error) {
	var b *builder
	var all []read
	for _, s := range of {
		data, _, err := bucket.GetBytes(ctx, in, s.name, 0, -1)
		if err != nil {
			return nil, err
		}
		x, err := parseNamed(s.name, data)
		if err != nil {
			return nil, err
		}
		if b == nil {
			b = newBuilder(x.before)
			b.first, b.last, b.firstTime = x.first, x.first-1, x.firstTime
		}
		if x.first != b.last+1 || x.before != b.lastSum {
			return nil, damaged(s.name, fmt.Errorf("it doesn't follow record %d", b.last))
		}
		b.last, b.lastSum, b.latest, b.size = x.last, x.lastSum, x.latest, b.size+x.size
		b.times = append(b.times, x.times...)
		all = append(all, read{s.name, x, data})
	}
	z, err := newDecoder()
	if err != nil {
		return nil, err
	}
	defer z.Close()
	// They are unpacked twice, so that each run is made as large as it gets: one that grows takes several times its memory.
	sizes := map[group]int{}
	for _, r := range all {
		if err := r.each(z, func(f grouped) { sizes[f.group] += fragmentSize(f.number-b.first, f.ops) }); err != nil {
			return nil, err
		}
	}
	for g, size := range sizes {
		b.groups[g] = &run{fragments: make([]byte, 0, size)}
	}
	for _, r := range all {
		if err := r.each(z, func(f grouped) { b.groups[f.group].add(f.number-b.first, f.ops) }); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// A read is a segment whose bytes are in memory.
type read struct {
	name string
	*index
	data []byte
}

// each calls do with each fragment, in the order of the blocks.
func (r read) each(z *zstd.Decoder, do func(grouped)) error {
	for i := range r.blocks {
		block := &r.blocks[i]
		if block.at+int64(block.size) > int64(len(r.data)) {
			return damaged(r.name, nil)
		}
		for f, err := range r.unpack(z, block, r.data[block.at:][:block.size]) {
			if err != nil {
				return damaged(r.name, err)
			}
			do(f)
		}
	}
	return nil
}
