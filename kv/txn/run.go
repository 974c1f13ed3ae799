package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// run runs fn in transactions until one of them comes to an end that counts.
func (db *DB) run(ctx context.Context, readOnly bool, fn func(tx *Tx) error) error {
	begun := db.begin()
	defer db.end(begun)
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		db.meter.Count(db.name.attempts, 1)
		err := db.try(ctx, readOnly, fn)
		if err == nil || !Retryable(err) {
			return err
		}
		if errors.Is(err, kv.ErrConflict) {
			db.meter.Count(db.name.conflicts, 1)
		}
		if db.opts.MaxAttempts > 0 && n >= db.opts.MaxAttempts {
			return fmt.Errorf("txn: gave up after %d attempts: %w", n, err)
		}
		if ended := db.pause(ctx, n); ended != nil {
			return fmt.Errorf("txn: %w, after attempt %d: %w", ended, n, err)
		}
	}
}

// try runs fn in one transaction. Whatever fn does, panicking included, the
// transaction is over when try is.
func (db *DB) try(ctx context.Context, readOnly bool, fn func(tx *Tx) error) error {
	tx := newTx(db, readOnly)
	tx.managed = true
	defer tx.Cancel()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit(ctx, newCommitID())
}

// pause waits before the attempt after the nth one. Its length is random, so that
// transactions that met don't meet again.
func (db *DB) pause(ctx context.Context, n int) error {
	longest := db.opts.MaxBackoff
	if shift := n - 1; shift < 32 {
		longest = min(longest, db.opts.Backoff<<shift)
	}
	if longest <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(rand.N(longest)):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
