package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// maxSilence is how long the bucket may fail until a base is given up, whose tables the store keeps for it.
const maxSilence = 10 * time.Minute

// minAsked is the size of a table from which on the bucket is asked whether it is there, before it is sent, in bytes.
const minAsked = 64 << 10

// errNoBase says that a base was given up, until later.
var errNoBase = errors.New("archive: no base could be made")

// makeBase makes a base of the newest state, and stores its tables that aren't in the bucket; storeBase stores the list. Its time is ms or later.
func (l *link) makeBase(ctx context.Context, have known, ms int64) (_ *baseList, err error) {
	base, err := l.records.Base(ctx)
	if err != nil && !final(err) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errNoBase, err) // the disk may be full, and have room later
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, base.Close()) }()
	list := &baseList{Format: formatVersion, Number: base.Number, Time: later(l.o.now().UTC(), time.UnixMilli(ms).UTC())}
	if base.Number > 0 {
		switch r, err := l.record(ctx, base.Number); {
		case err == nil:
			list.LastSum = sumOf(r.Batch)
		case !errors.Is(err, pebblekv.ErrGone): // a store that was restored has the commit in its tables alone
			return nil, err
		}
	}
	if list.Files, err = l.storeFiles(ctx, base, have); err != nil {
		return nil, err
	}
	return list, nil
}

// storeBase stores the list of a base.
func (l *link) storeBase(ctx context.Context, line uint64, list *baseList) error {
	data, err := list.encode()
	if err == nil {
		err = l.put(ctx, baseName(line, list.Number), data, bucket.Once)
	}
	if err != nil && !errors.Is(err, bucket.ErrExists) { // one of the same state is as good
		return err
	}
	l.meter.Count(metricBases, 1)
	return nil
}

// storeFiles has the files of a base be in the bucket, and returns their list.
func (l *link) storeFiles(ctx context.Context, base *pebblekv.Base, have known) ([]baseFile, error) {
	files := make([]baseFile, len(base.Files))
	for _, f := range base.Files {
		l.update(func(s *Status) { s.Base += f.Size })
	}
	defer l.update(func(s *Status) { s.Base = 0 })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, f := range base.Files {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := l.storeFile(ctx, base, f, &files[i], have); err != nil {
				cancel(err)
			}
			l.update(func(s *Status) { s.Base -= f.Size })
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return files, nil
}

// storeFile has a file of a base be in the bucket: a table as an object, another one in its list.
func (l *link) storeFile(ctx context.Context, base *pebblekv.Base, f pebblekv.BaseFile, to *baseFile, have known) (err error) {
	if is, ok := have.names[f.Name]; ok && f.Table && is.Size == f.Size {
		*to = is
		return nil
	}
	in, err := base.Open(f.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	*to = baseFile{Name: f.Name, Size: f.Size}
	if !f.Table {
		to.Data = make([]byte, f.Size)
		if _, err := io.ReadFull(io.NewSectionReader(in, 0, f.Size), to.Data); err != nil {
			return err
		}
		to.Sum = hexSum(to.Data)
		return nil
	}
	if to.Sum, err = sumFile(ctx, in, f.Size); err != nil || have.sums[to.Sum] {
		return err
	}
	err = l.forBase(ctx, func() error {
		if f.Size >= minAsked {
			// An attempt that was cut short, or another lineage, may have stored it.
			if _, o, err := bucket.GetBytes(ctx, l.bucket, to.object(), 0, 1); err == nil && o.Size == f.Size {
				return bucket.ErrExists
			}
		}
		return l.bucket.Put(ctx, to.object(), io.NewSectionReader(in, 0, f.Size), bucket.Once)
	})
	if errors.Is(err, bucket.ErrExists) {
		return nil // its name says which bytes it has
	}
	if err == nil {
		l.stored(f.Size)
	}
	return err
}

// forBase is retry for what a base needs, which it gives up with errNoBase.
func (l *link) forBase(ctx context.Context, fn func() error) error {
	since := l.o.now()
	return l.retry(ctx, func() error {
		err := fn()
		if err != nil && !final(err) && l.o.now().Sub(since) > maxSilence {
			return fmt.Errorf("%w: %w", errNoBase, err)
		}
		return err
	})
}
