package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// Epochs are numbered without a gap, and old ones are removed. What the others rely on:
//
//  1. The last epoch is always there. Collect removes an epoch only if its list has a later one, which may itself go only for one that is later still. So
//     the epoch with the highest number that was ever stored stays, and the number behind it is free and was never taken.
//  2. Not even a list that takes long misses it. A list may leave out an object that is stored or removed meanwhile. But Collect keeps, beside all that
//     are younger, the last epoch that is older than minTableAge: the one that was the last when a list began goes no sooner than that after another one
//     was stored, when the list is long over.
//  3. A number that is free because its epoch was removed can't be taken. A Writer that listed the epochs long ago may store one of such a number: the
//     bucket says that it is free. So storeEpoch lists them again once its own is stored, and by 1 and 2 finds the last one: the Writer is fenced before it
//     does anything. What it has stored is an epoch that isn't the last one, which the next Collect removes.
//  4. An earlier Writer learns that it is fenced, however long it has slept. It looks for the epoch behind its own. Collect removes epochs in the order
//     of their numbers, and stops at an error: if the one behind its own was removed, its own was removed before. It isn't there then, or it is another
//     Writer's, of 3. The one behind is looked for first, so that no Collect comes between the two looks.
//
// Conditional puts alone give all of this. It takes clocks for 2 only, and no call of a bucket may be done minTableAge after it was made: an
// epoch that is stored a second time so late would be its Writer's again.

// An epoch is the object with which a Writer begins.
type epoch struct {
	Since time.Time `json:"since"`
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Store string    `json:"store,omitempty"` // where it is
}

// same reports whether both are of one attempt of a Writer to begin.
func (e epoch) same(as epoch) bool {
	return e.Since.Equal(as.Since) && e.Host == as.Host && e.PID == as.PID && e.Store == as.Store
}

// newestEpoch returns the number of the last epoch, 0 before the first.
func newestEpoch(ctx context.Context, b bucket.Bucket) (newest uint64, err error) {
	for o, err := range b.List(ctx, epochPrefix) {
		if err != nil {
			return 0, err
		}
		if n, ok := parseNumber(epochPrefix, o.Name); ok {
			newest = max(newest, n)
		}
	}
	return newest, nil
}

// storeEpoch stores an epoch of the number behind the last one. Errors: bucket.ErrExists if another Writer has taken the number, ErrFenced if it isn't
// the last one any more, those of the bucket, after which it may be stored.
func storeEpoch(ctx context.Context, b bucket.Bucket, number uint64, own *epoch) error {
	if err := writeJSON(ctx, b, epochName(number), own, bucket.Once); err != nil {
		return err
	}
	newest, err := newestEpoch(ctx, b)
	if err != nil || newest <= number {
		return err
	}
	var e epoch
	if err := readJSON(ctx, b, epochName(newest), &e); err != nil {
		return err
	}
	return fencedBy(e)
}

// fencedBy returns the error of a Writer of before an epoch.
func fencedBy(e epoch) error {
	return fmt.Errorf("%w: %s on %s, process %d, since %s", ErrFenced, e.Store, e.Host, e.PID, e.Since.Format("2006-01-02 15:04:05 MST"))
}

// epochs removes those before the last one that is older than a time, in order.
func (c *Collected) epochs(ctx context.Context, b bucket.Bucket, young time.Time) error {
	var old []bucket.Object
	last := -1
	for o, err := range b.List(ctx, epochPrefix) {
		if err != nil {
			return err
		}
		if _, ok := parseNumber(epochPrefix, o.Name); !ok {
			continue
		}
		if o.Modified.Before(young) {
			last = len(old)
		}
		old = append(old, o)
	}
	for i := range last {
		if err := c.remove(ctx, b, old[i].Name, old[i].Size); err != nil {
			return err
		}
	}
	return nil
}
