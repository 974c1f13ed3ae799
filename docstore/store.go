package docstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
	"github.com/greenroomdb/greenroom/metrics"
)

// A Store is the documents of one name on an engine. It is safe for concurrent use, needs no closing, and any
// number of Stores, of this process and others, may use one name.
type Store struct {
	*env
	db     *txn.DB
	upkeep *txn.DB // what isn't bounded in time, and writes more at once

	mu      sync.Mutex
	pending map[Path]int // +checklocks:mu
}

// Open returns the store of a name, which is made by the first change.
//
// The engine must offer transactions, as all engines of this module do, or the error is kv.ErrUnsupported. It stays
// the caller's.
func Open(ctx context.Context, e kv.Engine, name string, opts *Options) (*Store, error) {
	if !utf8.ValidString(name) || len(name) > maxLabel {
		return nil, fmt.Errorf("docstore: the name %q is not UTF-8 of at most %d bytes: %w", clip(name), maxLabel, kv.ErrInvalid)
	}
	env := &env{sub: subspace(name), programs: &programs{}, bounds: bounds{explode: 1000, segment: 512, inline: 100, build: 256, delete: 100}}
	if opts != nil {
		env.opts = *opts
	}
	env.opts.Logger = cmp.Or(env.opts.Logger, slog.Default())
	env.meter = metrics.Meter{To: env.opts.Metrics}
	db, err := txn.New(e, &env.opts.Transactions)
	if err != nil {
		return nil, fmt.Errorf("docstore: %w", err)
	}
	long := env.opts.Transactions
	long.MaxAge, long.Limits.Bytes = -1, upkeepBytes
	if most := e.Limits().Bytes; most > 0 {
		long.Limits.Bytes = min(long.Limits.Bytes, most)
	}
	upkeep, err := txn.New(e, &long)
	if err != nil {
		return nil, fmt.Errorf("docstore: %w", err)
	}
	s := &Store{env: env, db: db, upkeep: upkeep, pending: map[Path]int{}}
	err = db.View(ctx, func(t *txn.Tx) error {
		_, err := s.begin(ctx, t)
		return err
	})
	if errors.Is(err, ErrImporting) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("docstore: open %s: %w", name, err)
	}
	return s, nil
}

// DB returns the transactions that the store runs on.
func (s *Store) DB() *txn.DB { return s.db }

// Begin returns a transaction of documents within t, one of the store's engine, for a caller that commits more in t than
// documents of one store. The caller commits t only if Tx.Err is nil, and then calls Landed; it need undo nothing if it
// doesn't commit. Update does all of that, and takes apart what is imported where it must be.
func (s *Store) Begin(ctx context.Context, t *txn.Tx) (*Tx, error) {
	return s.begin(ctx, t)
}

func (s *Store) begin(ctx context.Context, t *txn.Tx) (*Tx, error) {
	r := records{env: s.env, rows: newRows(t, s.sub, s.opts.Compat, &s.bounds), derived: map[string][]*derived{}}
	tx := &Tx{&changer{lookup: lookup{r}, pending: map[Path]int{}}}
	tx.tx = tx
	m := &tx.meta
	ok := tx.findJSON(ctx, metaKey, m)
	tx.made = ok && (m.Arrays || !s.opts.Compat)
	if m.Version > formatVersion {
		tx.fail(fmt.Errorf("%w: version %d", ErrNewerFormat, m.Version))
	}
	m.Version, m.Arrays = formatVersion, m.Arrays || s.opts.Compat
	if m.Importing && tx.err == nil {
		return tx, ErrImporting
	}
	return tx, tx.err
}

// run runs fn in a transaction of documents within t.
func (s *Store) run(ctx context.Context, t *txn.Tx, fn func(tx *Tx) error) error {
	tx, err := s.begin(ctx, t)
	if err == nil {
		err = fn(tx)
	}
	if tx.err != nil && !errors.Is(err, tx.err) {
		err = tx.err
	}
	return err
}

// Update runs fn in a transaction and commits it, whole or not at all. If another commit changed what fn has read, fn
// runs again with the newer state, so it must do nothing outside tx that can't be done twice. If fn returns an error,
// nothing was changed, and Update returns that error. Others are those of txn.DB.Update. tx is for fn's goroutine, and of
// no use afterwards.
//
// When many documents of a text index are pending, Update makes a segment of them after its commit.
func (s *Store) Update(ctx context.Context, fn func(tx *Tx) error) error {
	for {
		var last *Tx
		err := s.db.Update(ctx, func(t *txn.Tx) error {
			return s.run(ctx, t, func(tx *Tx) error {
				last = tx
				return fn(tx)
			})
		})
		var array *arrayError
		if errors.As(err, &array) {
			if err = s.explode(ctx, array.key); err == nil {
				continue
			}
		}
		if err == nil {
			s.Landed(last)
			s.Tend(ctx)
		}
		return err
	}
}

// View runs fn in a transaction that only reads: all of one state. It conflicts with nothing. Changes are
// txn.ErrReadOnly. fn may run again as with Update.
func (s *Store) View(ctx context.Context, fn func(tx *Tx) error) error {
	return s.view(ctx, s.db, fn)
}

func (s *Store) view(ctx context.Context, db *txn.DB, fn func(tx *Tx) error) error {
	return db.View(ctx, func(t *txn.Tx) error {
		return s.run(ctx, t, func(tx *Tx) error {
			tx.readOnly = true
			return fn(tx)
		})
	})
}

// Landed tells the store that a transaction of Begin was committed.
func (s *Store) Landed(tx *Tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, n := range tx.pending {
		if _, ok := s.pending[path]; !ok { // random, so that the time comes for processes, too, that write little
			s.pending[path] = rand.IntN(s.bounds.segment)
		}
		s.pending[path] += n
	}
}

// Tend looks after text indexes that got many documents, as Update does after its commit. It is for callers of
// Begin; it does nothing if nothing is due. It logs what fails of that; a later call does it.
func (s *Store) Tend(ctx context.Context) {
	s.mu.Lock()
	var due []Path
	for path, n := range s.pending {
		if n >= s.bounds.segment {
			due, s.pending[path] = append(due, path), 0
		}
	}
	s.mu.Unlock()
	for _, path := range due {
		if err := s.tend(ctx, path); err != nil {
			s.opts.Logger.WarnContext(ctx, "docstore: text index", "path", path, "err", err)
		}
	}
}
