package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
)

// A Verified is what Verify has looked at.
type Verified struct {
	Lines, Bases, Segments, Tables int
	// Bytes is how many bytes it has read.
	Bytes int64
	// Problems is how many there are.
	Problems int
}

// verify is Archive.Verify.
func verify(ctx context.Context, b bucket.Bucket, problem func(error), progress func(read, total int64)) (v Verified, err error) {
	r := &verifier{bucket: b, v: &v, tables: map[string]tableOf{}, problem: problem, progress: progress}
	if r.z, err = newDecoder(); err != nil {
		return v, err
	}
	defer r.z.Close()
	if progress != nil {
		for o, err := range b.List(ctx, "") {
			if err != nil {
				return v, err
			}
			r.total += o.Size
		}
	}
	lines, err := readLines(ctx, b)
	if err != nil {
		return v, err
	}
	for _, line := range lines {
		v.Lines++
		if err := r.line(ctx, line.number); err != nil {
			return v, err
		}
	}
	for _, object := range slices.Sorted(maps.Keys(r.tables)) {
		v.Tables++
		if err := r.saw(r.table(ctx, r.tables[object])); err != nil {
			return v, err
		}
	}
	return v, nil
}

// A verifier is one run of it.
type verifier struct {
	bucket   bucket.Bucket
	v        *Verified
	z        *zstd.Decoder
	tables   map[string]tableOf
	problem  func(error)
	progress func(read, total int64)
	total    int64 // bytes that the bucket has, for progress
}

// saw counts an error that is damage, and returns others.
func (r *verifier) saw(err error) error {
	if errors.Is(err, kv.ErrCorrupt) {
		r.v.Problems++
		r.problem(err)
		return nil
	}
	return err
}

// read counts bytes.
func (r *verifier) read(n int64) {
	r.v.Bytes += n
	if r.progress != nil {
		r.progress(r.v.Bytes, r.total)
	}
}

// Write counts bytes, for io.Copy.
func (r *verifier) Write(b []byte) (int, error) {
	r.read(int64(len(b)))
	return len(b), nil
}

// line verifies a lineage.
func (r *verifier) line(ctx context.Context, line uint64) error {
	bases, err := readBases(ctx, r.bucket, line)
	if err != nil {
		return err
	}
	var first *baseList
	for _, b := range bases {
		l, err := readBase(ctx, r.bucket, b.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was too old, and was removed meanwhile
		}
		if err = r.saw(err); err != nil {
			return err
		}
		r.v.Bases++
		r.read(b.size)
		if l == nil {
			continue
		}
		if first == nil {
			first = l
		}
		for i := range l.Files {
			if f := &l.Files[i]; f.table() {
				r.tables[f.object()] = tableOf{f, b.name}
			}
		}
	}
	log, err := readLog(ctx, r.bucket, line)
	if err != nil || first == nil {
		return err
	}
	have, sum := first.Number, first.LastSum
	return walk(ctx, r.bucket, line, have, log, func(s numbered, final bool) (uint64, error) {
		in := &segmentReader{ctx: ctx, bucket: r.bucket, z: r.z}
		x, _, err := in.read(s.name)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		if err == nil {
			err = x.follows(s.name, have, sum)
		}
		if errors.Is(err, errHole) {
			if !final {
				return 0, err
			}
			err = r.hole(ctx, line, x.first, err)
		}
		r.v.Segments++
		r.read(s.size)
		last, lastSum := s.last, unknown // of a damaged one
		if x != nil {
			last, lastSum = x.last, x.lastSum
		}
		if last > have {
			have, sum = last, lastSum
		}
		return have, r.saw(err)
	})
}

// hole returns what it means that the records before the first one of a segment aren't there: damage, unless they were too old, and were removed
// meanwhile. Then no base is kept that needs them.
func (r *verifier) hole(ctx context.Context, line, first uint64, damage error) error {
	_, err := baseOf(ctx, r.bucket, Bookmark{Line: line, Number: first - 2})
	switch {
	case err == nil:
		return damage
	case errors.Is(err, ErrNoState):
		return nil
	}
	return err
}

// A tableOf is a table of a base, the last one that has it.
type tableOf struct {
	file *baseFile
	base string
}

// table verifies a table. If it isn't there, that is damage unless it went with its base.
func (r *verifier) table(ctx context.Context, t tableOf) error {
	err := copyTable(ctx, r.bucket, t.file, io.Discard, r)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, berr := readBase(ctx, r.bucket, t.base); errors.Is(berr, fs.ErrNotExist) {
		return nil
	}
	return damaged(t.file.object(), errors.New("it is missing"))
}
