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

// reach makes the plan one of the state of a bookmark, with the records behind its base.
func (p *plan) reach(ctx context.Context, b bucket.Bucket, m Bookmark) (broken error) {
	for range maxLists {
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
		if broken = p.check(ctx, b, m); !errors.Is(broken, errHole) {
			return broken
		}
	}
	return broken
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
		have, sum := p.base.Number, p.base.LastSum
		err = walk(ctx, b, p.line, have, p.log, func(s numbered, _ bool) (uint64, error) {
			if s.first > p.number {
				return 0, nil
			}
			x, found, err := in.read(s.name)
			if err == nil {
				err = x.follows(s.name, have, sum)
			}
			if err != nil {
				return 0, err
			}
			for _, number := range slices.Sorted(maps.Keys(found)) {
				if number <= have || number > p.number {
					continue
				}
				r := pebblekv.Record{Number: number, Time: x.timeOf(number)}
				if r.Batch, err = pebblekv.JoinOps(found[number]); err != nil {
					return 0, damaged(s.name, err)
				}
				if !yield(r, nil) {
					return 0, errStop
				}
			}
			if x.last > have {
				have, sum = x.last, x.lastSum
			}
			return have, nil
		})
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

// follows returns an error unless a segment of the name follows a record, whose sum may be unknown. It may have records before that, too.
func (x *index) follows(name string, have uint64, sum sum) error {
	if x.first > have+1 {
		return hole(name, have, x.first)
	}
	if x.first == have+1 && sum != unknown && x.before != sum {
		return damaged(name, fmt.Errorf("it doesn't follow record %d", have))
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
			return hole(s.name, have, s.first)
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
