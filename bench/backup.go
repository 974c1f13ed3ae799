package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sync/atomic"

	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// noBackup is the peer of a store that is backed up: the same store without that.
const noBackup = "no-backup"

// inDirectory opens a side on the engine that has backups, whatever the run's is.
func inDirectory(open func(*stand)) func(*stand) {
	return func(s *stand) {
		s.on, s.trip = enginePebble, 0
		open(s)
	}
}

// backedUp opens a side whose store is backed up meanwhile, to a directory on the same disk. A round ends when all of it is in the
// backup, so that no work of the backup is left for the rounds of the peer.
func backedUp(open func(*stand)) func(*stand) {
	return func(s *stand) {
		inDirectory(open)(s)
		w := owned(s, must(archive.Start(s.engine.Unwrap().(*pebblekv.DB), must(bucket.Folder(filepath.Join(s.dir, "backup"))), nil)))
		check(w.Sync(s.ctx))
		s.after = func() error { return w.Sync(s.ctx) }
	}
}

// cutOff opens a side whose backup has begun, and fails from then on. In the end the bucket works again, and has to get everything that
// was committed, in the same lineage.
func cutOff(open func(*stand)) func(*stand) {
	return func(s *stand) {
		inDirectory(open)(s)
		db := s.engine.Unwrap().(*pebblekv.DB)
		to := &outage{Bucket: must(bucket.Folder(filepath.Join(s.dir, "backup")))}
		w := must(archive.Start(db, to, nil))
		s.end(func() error {
			to.now.Store(false)
			// Another Writer begins at once, where this one would wait for its next attempt.
			return errors.Join(w.Close(), caughtUp(context.WithoutCancel(s.ctx), db, to))
		})
		check(w.Sync(s.ctx))
		to.now.Store(true)
	}
}

// caughtUp backs up what the bucket doesn't have yet, and returns an error if that isn't what follows what it has.
func caughtUp(ctx context.Context, db *pebblekv.DB, to bucket.Bucket) (err error) {
	w, err := archive.Start(db, to, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Sync(ctx); err != nil {
		return err
	}
	a, err := archive.Open(ctx, to)
	if err != nil {
		return err
	}
	lines, err := a.Lines(ctx)
	if err == nil && (len(lines) != 1 || lines[0].Last.Number != db.Records().Last()) {
		err = fmt.Errorf("after the outage the backup has %+v, and the store %d commits", lines, db.Records().Last())
	}
	return err
}

// An outage is a bucket that may fail.
type outage struct {
	bucket.Bucket
	now atomic.Bool
}

var errOutage = errors.New("the bucket can't be reached")

// err is what each call returns now.
func (o *outage) err() error {
	if o.now.Load() {
		return errOutage
	}
	return nil
}

// Put is bucket.Bucket's.
func (o *outage) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Bucket.Put(ctx, name, body, how)
}

// Get is bucket.Bucket's.
func (o *outage) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if err := o.err(); err != nil {
		return nil, bucket.Object{}, err
	}
	return o.Bucket.Get(ctx, name, offset, length)
}

// List is bucket.Bucket's.
func (o *outage) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	if err := o.err(); err != nil {
		return func(yield func(bucket.Object, error) bool) { yield(bucket.Object{}, err) }
	}
	return o.Bucket.List(ctx, prefix)
}

// Delete is bucket.Bucket's.
func (o *outage) Delete(ctx context.Context, name string) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Bucket.Delete(ctx, name)
}
