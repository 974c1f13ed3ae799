package pgkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroomdb/greenroom/kv"
)

// Commit applies c as one transaction, in one round trip. See kv.Engine.
//
// If the context ends while the answer is on its way, Commit asks the server to stop: if
// it does in time nothing was applied, and the context's error is returned. A
// connection that breaks during COMMIT leaves the outcome open; if c.ID is set Commit
// looks the outcome up, for as long as Options.RetryFor says, and only if that fails the
// error is kv.ErrUnknownOutcome.
func (db *DB) Commit(ctx context.Context, c *kv.Commit) error {
	if err := db.begin(ctx); err != nil {
		return kv.NotApplied(err)
	}
	err := db.commit(ctx, c)
	db.life.leave()
	if err != nil {
		return kv.NotApplied(wrap("commit", err))
	}
	db.watches.commit(c.Ops)
	// No connection is held any more: what it does may commit.
	if c.OnApply != nil {
		c.OnApply()
	}
	return nil
}

func (db *DB) commit(ctx context.Context, c *kv.Commit) error {
	if db.opts.ReadOnly {
		return errReadOnly
	}
	p := plans.Get().(*plan)
	defer plans.Put(p)
	if err := p.make(c); err != nil {
		db.note(c.ID, err)
		return err
	}
	err := db.shared.commit(member{ctx: ctx, c: c, p: p})
	db.note(c.ID, err)
	return err
}

// note remembers what became of a commit.
func (db *DB) note(id kv.CommitID, err error) {
	switch {
	case err == nil:
		db.commits.Record(id, kv.OutcomeApplied)
	case !errors.Is(err, kv.ErrUnknownOutcome):
		db.commits.Record(id, kv.OutcomeNotApplied)
	}
}

// land runs a transaction until it is known whether it was committed, and again where
// it was not, for a reason that passes.
func (db *DB) land(ctx context.Context, ids []kv.CommitID, transact func(context.Context, *conn, place) error) error {
	r := db.retry()
	at := db.slots.take(ids)
	for {
		err := db.landOnce(ctx, at, transact)
		if errors.Is(err, errDoubt) {
			if err = db.settle(ctx, r, at, err); errors.Is(err, kv.ErrUnknownOutcome) {
				db.slots.doubt(at)
				return err
			}
		}
		if err == nil || !worth(ctx, err) {
			db.slots.give(at)
			return err
		}
		if err := r.again(ctx, err); err != nil {
			db.slots.give(at)
			return err
		}
		// It did not land, and under its number it never will.
		at.number = db.slots.renumber()
	}
}

// settle looks up a transaction that is in doubt. It returns nil if it was committed,
// an error that is worth another try if it was not, and else ErrUnknownOutcome.
func (db *DB) settle(ctx context.Context, r *retry, at place, cause error) error {
	// Why it couldn't be looked up is text alone: a context's error must not look as if
	// nothing had been applied.
	unknown := func(why error) error { return fmt.Errorf("%w: %w (%v)", kv.ErrUnknownOutcome, cause, clean(why)) }
	if len(at.ids) == 0 {
		return unknown(errors.New("it has no id to look it up by"))
	}
	for db.opts.RetryFor >= 0 {
		applied, err := db.lookUp(ctx, at)
		switch {
		case err == nil && applied:
			return nil
		case err == nil:
			return &lostError{cause}
		case !worth(ctx, err):
			return unknown(err)
		}
		if err := r.again(ctx, err); err != nil {
			return unknown(err)
		}
	}
	return unknown(errors.New("it was not looked up"))
}

func (db *DB) landOnce(ctx context.Context, at place, transact func(context.Context, *conn, place) error) error {
	c, err := db.take(ctx, db.writes)
	if err != nil {
		return err
	}
	defer db.writes.give(c)
	db.trips.Add(1)
	return transact(ctx, c, at)
}

// transact sends the transaction of a plan.
func (db *DB) transact(ctx context.Context, cn *conn, p *plan, d kv.Durability, at place) error {
	// A commit that runs alone waits for stable storage only after it lets the others in again.
	alone, size, most := p.alone(), p.size(), db.stageAt
	if alone {
		most = db.aloneAt
	}
	f := db.start(ctx, cn, size)
	f.send(db.sql.begin)
	if size > most {
		f.stage()
	}
	if alone || d == kv.Applied {
		f.send(db.sql.applied)
	}
	if alone {
		f.send(db.sql.gateExclusive)
	} else {
		f.send(db.sql.gateShared)
	}
	f.check(p)
	f.change(p, at)
	return meaning(f.end(ctx, alone && d == kv.Durable))
}

// check sends what must be so.
func (f *flow) check(p *plan) {
	for checks := p.checks; len(checks) > 0; {
		p.keys.reset()
		p.vals.reset()
		n, size := 0, 0
		for ; n < len(checks) && (n == 0 || size+len(checks[n].Key)+len(checks[n].Value) <= maxRequest); n++ {
			p.keys.add(p.spare.surrogate(checks[n].Key))
			p.vals.add(notNil(checks[n].Value))
			size += len(checks[n].Key) + len(checks[n].Value)
		}
		f.send(f.c.sql.check, p.keys.bytes(), p.vals.bytes())
		checks = checks[n:]
	}
}

// change sends what a plan does to the table, and what tells that it was done.
func (f *flow) change(p *plan, at place) {
	f.writes(f.c.sql.insert, p, p.absent)
	f.tell(at)
	for i := range p.ranges {
		f.clearRange(p, &p.ranges[i])
	}
	f.clear(p)
	f.writes(f.c.sql.set, p, p.sets)
}

// tell sends what tells that the transaction was committed.
func (f *flow) tell(at place) {
	if len(at.ids) > 0 {
		f.send(f.c.sql.outcome, f.db.host[:], int4Param(at.slot), int8Param(at.number))
	}
}

// meaning turns the errors by which a statement stops a transaction into kv's.
func meaning(err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return err
	}
	switch {
	case pe.Code == codeUniqueViolation:
		return fmt.Errorf("%w: a key that should be absent is there", kv.ErrConflict)
	case pe.Code == codeInvalidText && strings.Contains(pe.Message, failedCheck):
		return fmt.Errorf("%w: a key has another value", kv.ErrConflict)
	case pe.Code == codeInvalidText && strings.Contains(pe.Message, failedRead):
		return fmt.Errorf("%w: what the transaction has read was changed", kv.ErrConflict)
	case pe.Code == codeInvalidText && strings.Contains(pe.Message, noVersion):
		return errNoVersion
	case pe.Code == codeProgramLimit:
		return fmt.Errorf("%w: %w", kv.ErrTooLarge, clean(pe))
	case pe.Code == codeInvalidText && strings.Contains(pe.Message, fencedOff):
		return &lostError{errors.New("the transaction was given up by who asked for its outcome")}
	}
	return err
}

// maxRequest is how many bytes of rows go into one statement: the server keeps them in
// memory several times over, and takes no message of more than 1 GiB.
const maxRequest = 8 << 20

// writes sends rows, in as many statements as their size asks for.
func (f *flow) writes(s *statement, p *plan, rows []write) {
	for len(rows) > 0 {
		p.keys.reset()
		p.rests.reset()
		p.vals.reset()
		n, size, long := 0, 0, false
		for ; n < len(rows) && (n == 0 || size+rows[n].size() <= maxRequest); n++ {
			p.keys.add(rows[n].key)
			p.vals.add(rows[n].value)
			size += rows[n].size()
			long = long || rows[n].rest != nil
		}
		// Arrays of different lengths are filled up with NULLs.
		for i := 0; long && i < n; i++ {
			p.rests.add(rows[i].rest)
		}
		f.send(s, p.keys.bytes(), p.rests.bytes(), p.vals.bytes())
		rows = rows[n:]
	}
}

func (w *write) size() int { return len(w.key) + len(w.rest) + len(w.value) }

// clear sends the keys that are removed.
func (f *flow) clear(p *plan) {
	for clears := p.clears; len(clears) > 0; {
		p.keys.reset()
		n, size := 0, 0
		for ; n < len(clears) && (n == 0 || size+len(clears[n]) <= maxRequest); n++ {
			p.keys.add(clears[n])
			size += len(clears[n])
		}
		f.send(f.c.sql.clear, p.keys.bytes())
		clears = clears[n:]
	}
}

// clearRange sends a range that is removed, but for the rows that the plan sets: in
// pieces, if these are many.
func (f *flow) clearRange(p *plan, r *kv.Range) {
	lo, hi := notNil(appendLow(nil, r.Start)), appendHigh(nil, r.End)
	send := func(from, to []byte) {
		f.send(f.c.sql.clearRange, from, to, notNil(r.Start), r.End, p.keys.bytes())
		p.keys.reset()
	}
	stay := [2][]write{within(p.sets, lo, hi), within(p.absent, lo, hi)}
	p.keys.reset()
	for size := 0; len(stay[0])+len(stay[1]) > 0; {
		next := &stay[0]
		if len(stay[0]) == 0 || len(stay[1]) > 0 && bytes.Compare(stay[1][0].key, stay[0][0].key) < 0 {
			next = &stay[1]
		}
		key := (*next)[0].key
		if size += len(key); size > maxRequest && p.keys.n > 0 {
			send(lo, key)
			lo, size = key, len(key)
		}
		p.keys.add(key)
		*next = (*next)[1:]
	}
	send(lo, hi)
}

// within returns those of rows, which are in the order of their keys, from lo to hi.
func within(rows []write, lo, hi []byte) []write {
	at := func(key []byte) int {
		i, _ := slices.BinarySearchFunc(rows, key, func(w write, k []byte) int { return bytes.Compare(w.key, k) })
		return i
	}
	from := at(lo)
	return rows[from:max(from, at(hi))]
}
