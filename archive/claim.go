package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/google/uuid"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A claim is a Writer's right to a destination: an epoch.
type claim struct {
	*link
	manifest Manifest
	epoch    uint64
	own      epoch       // the object of it
	left     []uuid.UUID // see owner
}

// take takes the next epoch.
func (c *claim) take(ctx context.Context) error {
	host, _ := os.Hostname() // "" where it isn't known
	own := epoch{Since: c.o.now().UTC(), Host: host, PID: os.Getpid(), Store: c.o.Store}
	c.own = own
	before := c.records.Held()
	return c.retry(ctx, func() (err error) {
		if c.manifest, err = makeManifest(ctx, c.bucket, c.o.now()); err != nil {
			return err
		}
		newest, err := newestEpoch(ctx, c.bucket)
		if err != nil {
			return err
		}
		is := parseOwner(before.For)
		known := is.archive == c.manifest.ID
		c.left = is.leaving(c.manifest.ID)
		if newest > 0 && !known && !c.o.TakeOver {
			var e epoch
			if err := readJSON(ctx, c.bucket, epochName(newest), &e); err != nil {
				return err
			}
			if e.same(own) { // an earlier attempt, which seemed to fail
				c.epoch = newest
				return nil
			}
			why := ErrOtherStore
			if slices.Contains(is.left, c.manifest.ID) {
				why = ErrElsewhere
			}
			return errors.Join(otherStore(why, e), c.records.Hold(before, true))
		}
		if !known {
			// The store knows before the epoch is there that it is its own, also if it crashes then.
			held := before
			held.For = owner{archive: c.manifest.ID, left: c.left}.String()
			if err := c.records.Hold(held, true); err != nil {
				return err
			}
		}
		c.epoch = newest + 1
		err = storeEpoch(ctx, c.bucket, c.epoch, &own)
		if errors.Is(err, bucket.ErrExists) {
			return fmt.Errorf("epoch %d was taken meanwhile", c.epoch)
		}
		return err
	})
}

// otherStore says that a destination has the backups of the store of an epoch: why is ErrOtherStore or ErrElsewhere.
func otherStore(why error, e epoch) error {
	return fmt.Errorf("%w: %s on %s wrote there last, since %s", why, e.Store, e.Host, e.Since.Format("2006-01-02 15:04:05 MST"))
}

// check returns ErrFenced if another Writer has begun. If the next epoch was there and was removed, so was the claim's own before; see epochs.go.
func (c *claim) check(ctx context.Context) error {
	return c.retry(ctx, func() error {
		var e epoch
		err := readJSON(ctx, c.bucket, epochName(c.epoch+1), &e)
		if err == nil {
			return fencedBy(e)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = readJSON(ctx, c.bucket, epochName(c.epoch), &e)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !e.same(c.own) {
				return fmt.Errorf("%w, and has for long", ErrFenced)
			}
		}
		return err
	})
}

// goOn returns the place from which the store goes on with the last lineage, the zero place if it doesn't.
func (c *claim) goOn(ctx context.Context) (at place, err error) {
	own := parseOwner(c.records.Held().For)
	if own.archive != c.manifest.ID || own.line == 0 {
		return place{}, nil
	}
	begun := true
	err = c.retry(ctx, func() error {
		lines, err := readLines(ctx, c.bucket)
		if err != nil || len(lines) > 0 && lines[len(lines)-1].number > own.line {
			return err
		}
		begun = len(lines) > 0 && lines[len(lines)-1].number == own.line
		err = again(func() error {
			at, err = lastPlace(ctx, c.bucket, own.line)
			return err
		})
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
	if err == nil && same && !begun { // it was about to
		if err = c.begin(ctx, at.line); errors.Is(err, errAnew) {
			return place{}, nil
		}
	}
	if err != nil || !same {
		return place{}, err
	}
	return at, nil
}

// begin says in the bucket that a lineage has begun, of which the first base is there.
func (c *claim) begin(ctx context.Context, line uint64) error {
	return c.retry(ctx, func() error {
		bases, err := readBases(ctx, c.bucket, line)
		if err != nil {
			return err
		}
		if len(bases) == 0 {
			return fmt.Errorf("%w: lineage %d has no base", errAnew, line)
		}
		l, err := readBase(ctx, c.bucket, bases[0].name)
		if err != nil {
			return err
		}
		err = writeJSON(ctx, c.bucket, lineageName(line), &lineageObject{Begun: l.Time}, bucket.Once)
		if errors.Is(err, bucket.ErrExists) { // an earlier attempt has
			return nil
		}
		return err
	})
}

// has reports whether the log has the last record of a place.
func (c *claim) has(ctx context.Context, at place) (bool, error) {
	if at.last == 0 && c.records.Last() == 0 {
		return true, nil
	}
	r, err := c.record(ctx, max(1, at.last))
	if errors.Is(err, pebblekv.ErrGone) {
		return false, nil
	}
	return err == nil && (at.last == 0 || sumOf(r.Batch) == at.sum), err // every store has begun empty
}
