package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A claim is a Writer's right to a destination: an epoch.
type claim struct {
	*link
	manifest Manifest
	epoch    uint64
}

// take takes the next epoch.
func (c *claim) take(ctx context.Context) error {
	return c.retry(ctx, func() (err error) {
		if c.manifest, err = makeManifest(ctx, c.bucket, c.o.now()); err != nil {
			return err
		}
		newest, err := newestEpoch(ctx, c.bucket)
		if err != nil {
			return err
		}
		if own := parseOwner(c.records.Held().For); newest > 0 && own.archive != c.manifest.ID && !c.o.TakeOver {
			var e epoch
			if err := readJSON(ctx, c.bucket, epochName(newest), &e); err != nil {
				return err
			}
			return fmt.Errorf("%w: %s on %s wrote there last, since %s", ErrOtherStore, e.Store, e.Host, e.Since.Format("2006-01-02 15:04:05 MST"))
		}
		host, _ := os.Hostname() // "" where it isn't known
		e := epoch{Since: c.o.now().UTC(), Host: host, PID: os.Getpid(), Store: c.o.Store}
		c.epoch = newest + 1
		err = writeJSON(ctx, c.bucket, epochName(c.epoch), &e, bucket.Once)
		if errors.Is(err, bucket.ErrExists) {
			return fmt.Errorf("epoch %d was taken meanwhile", c.epoch)
		}
		return err
	})
}

// check returns ErrFenced if another Writer has begun.
func (c *claim) check(ctx context.Context) error {
	return c.retry(ctx, func() error {
		var e epoch
		err := readJSON(ctx, c.bucket, epochName(c.epoch+1), &e)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: %s on %s, process %d, since %s", ErrFenced, e.Store, e.Host, e.PID, e.Since.Format("2006-01-02 15:04:05 MST"))
	})
}

// goOn returns the place from which the store goes on with the last lineage, the zero place if it doesn't.
func (c *claim) goOn(ctx context.Context) (at place, err error) {
	own := parseOwner(c.records.Held().For)
	if own.archive != c.manifest.ID || own.line == 0 {
		return place{}, nil
	}
	err = c.retry(ctx, func() error {
		lines, err := readLines(ctx, c.bucket)
		if err != nil || len(lines) == 0 || lines[len(lines)-1].number != own.line {
			return err
		}
		at, err = lastPlace(ctx, c.bucket, own.line)
		if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
			c.o.Logger.Error("archive: the backup can't go on where it ended", "error", err)
			at, err = place{}, nil
		}
		return err
	})
	if err != nil || at.line == 0 {
		return place{}, err
	}
	same, err := c.has(ctx, at)
	if err != nil || !same {
		return place{}, err
	}
	return at, nil
}

// has reports whether the log has the last record of a place.
func (c *claim) has(ctx context.Context, at place) (bool, error) {
	if at.last == 0 {
		return c.records.Last() == 0, nil
	}
	r, err := c.record(ctx, at.last)
	if errors.Is(err, pebblekv.ErrGone) {
		return false, nil
	}
	return err == nil && sumOf(r.Batch) == at.sum, err
}
