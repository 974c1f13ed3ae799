package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A plan is how a state is made.
type plan struct {
	base   *baseList
	line   uint64
	log    []numbered // with the records behind it
	number uint64     // of the last record
}

// errHole says that a list of segments lacks some. A list isn't of one moment: it may have neither the segments that a Writer merges meanwhile,
// nor the one that it makes of them, which the next list has.
var errHole = errors.New("segments are missing")

// reach makes the plan one of the state of a bookmark, with the records behind its base.
func (p *plan) reach(ctx context.Context, b bucket.Bucket, m Bookmark) (hole error) {
	const lists = 3 // another hole in each of them is one of the archive
	for range lists {
		log, err := readLog(ctx, b, m.Line)
		if err != nil {
			return err
		}
		p.number, p.log = m.Number, nil
		for _, s := range log {
			if s.first <= m.Number && (s.last == 0 || s.last > p.base.Number) {
				p.log = append(p.log, s)
			}
		}
		hole = p.check(ctx, b, m)
		if !errors.Is(hole, errHole) {
			return hole
		}
	}
	return hole
}

// records yields the records of a plan that its base doesn't have, in order: whole ones, or, if there are groups, what is of these. Of a
// segment only the blocks are read that may have something of it.
func (p *plan) records(ctx context.Context, b bucket.Bucket, groups []group) iter.Seq2[pebblekv.Record, error] {
	return func(yield func(pebblekv.Record, error) bool) {
		z, err := newDecoder()
		if err != nil {
			yield(pebblekv.Record{}, err)
			return
		}
		defer z.Close()
		in := &segmentReader{ctx: ctx, bucket: b, z: z, groups: groups}
		var before *index
		err = walk(ctx, b, p.line, p.log, func(s numbered) error {
			have := p.base.Number
			if before != nil {
				have = max(have, before.last)
			}
			if s.first > p.number {
				return nil
			}
			x, found, err := in.read(s.name)
			if err == nil {
				err = follows(p.base, before, x, s.name)
			}
			if err != nil {
				return err
			}
			before = x
			for _, number := range slices.Sorted(maps.Keys(found)) {
				if number <= have || number > p.number {
					continue
				}
				r := pebblekv.Record{Number: number, Time: x.timeOf(number)}
				if r.Batch, err = pebblekv.JoinOps(found[number]); err != nil {
					return damaged(s.name, err)
				}
				if !yield(r, nil) {
					return errStop
				}
			}
			return nil
		})
		have := p.base.Number
		if before != nil {
			have = max(have, before.last)
		}
		if err == nil && have < p.number { // segments were removed since the plan was made
			err = fmt.Errorf("%w: the records %d to %d of lineage %d are missing", kv.ErrCorrupt, have+1, p.number, p.line)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(pebblekv.Record{}, err)
		}
	}
}

// unknown is the sum of a record that isn't known.
var unknown sum

// errStop says that the caller of an iterator wants no more.
var errStop = errors.New("archive: no more records are wanted")

// follows returns an error unless a segment follows the one before, or the base if it is the first. It may have records of that, too.
func follows(base *baseList, before, x *index, name string) error {
	number, sum := base.Number, base.LastSum
	if before != nil {
		number, sum = before.last, before.lastSum
	}
	if x.first == number+1 && sum != unknown && x.before != sum || before != nil && x.first > number+1 {
		return damaged(name, fmt.Errorf("it doesn't follow record %d", number))
	}
	return nil
}

// A segmentReader reads segments, or parts of them.
type segmentReader struct {
	ctx    context.Context
	bucket bucket.Bucket
	z      *zstd.Decoder
	groups []group
}

// read returns the operations of a segment by the numbers of their records.
func (r *segmentReader) read(name string) (x *index, found map[uint64][]byte, err error) {
	var all []byte
	if r.groups == nil {
		if all, _, err = bucket.GetBytes(r.ctx, r.bucket, name, 0, -1); err == nil {
			x, err = parseNamed(name, all)
		}
	} else {
		x, err = readIndex(r.ctx, r.bucket, name)
	}
	if err != nil {
		return nil, nil, err
	}
	found = map[uint64][]byte{}
	for i := 0; i < len(x.blocks); i++ {
		if !r.wanted(&x.blocks[i]) {
			continue
		}
		n := 1
		for i+n < len(x.blocks) && r.wanted(&x.blocks[i+n]) {
			n++
		}
		run := x.blocks[i : i+n]
		data, err := r.blocks(name, all, run)
		if err != nil {
			return nil, nil, err
		}
		for k := range run {
			for f, err := range x.unpack(r.z, &run[k], data[run[k].at-run[0].at:][:run[k].size]) {
				if err != nil {
					return nil, nil, damaged(name, err)
				}
				if r.groups == nil || slices.Contains(r.groups, f.group) {
					found[f.number] = append(found[f.number], f.ops...)
				}
			}
		}
		i += n - 1
	}
	return x, found, nil
}

// wanted reports whether a block may have something that is read.
func (r *segmentReader) wanted(b *block) bool {
	return r.groups == nil || slices.ContainsFunc(r.groups, b.has)
}

// blocks returns the bytes of blocks that follow each other; all is the segment if that was read.
func (r *segmentReader) blocks(name string, all []byte, run []block) (data []byte, err error) {
	from, last := run[0].at, run[len(run)-1]
	size := last.at + int64(last.size) - from
	switch {
	case all == nil:
		data, _, err = bucket.GetBytes(r.ctx, r.bucket, name, from, size)
	case from+size <= int64(len(all)):
		data = all[from:][:size]
	}
	if err == nil && int64(len(data)) != size {
		err = damaged(name, nil)
	}
	return data, err
}

// check returns an error if the segments don't have all records of the plan.
func (p *plan) check(ctx context.Context, b bucket.Bucket, m Bookmark) error {
	have := p.base.Number
	for i, s := range p.log {
		if s.first > have+1 {
			return damaged(s.name, fmt.Errorf("%w: records %d to %d, before it", errHole, have+1, s.first-1))
		}
		if s.last == 0 && i == len(p.log)-1 && p.number > have {
			x, err := readIndex(ctx, b, s.name)
			if err != nil {
				return err
			}
			s.last = x.last
		}
		have = max(have, s.last)
	}
	if have < p.number {
		return fmt.Errorf("%w: %s: the last one that is kept behind it is %d", ErrNoState, m, have)
	}
	return nil
}
