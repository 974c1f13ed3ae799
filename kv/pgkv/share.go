package pgkv

import (
	"context"
	"errors"
	"hash/maphash"

	"github.com/greenroomdb/greenroom/internal/groupcommit"
	"github.com/greenroomdb/greenroom/kv"
)

// What a small commit costs a server is its statements, its row in the table of outcomes and
// its record in the log, not what it writes. So commits that come while others are on their
// way share the next transaction, if they have no key in common. Each lands or is refused as
// if it had one of its own: when the transaction is refused, each is tried alone.

// A sharer makes transactions of the commits of a DB.
type sharer struct {
	db   *DB
	line *groupcommit.Line[member]
}

// A member is a commit that may share a transaction.
type member struct {
	ctx   context.Context
	c     *kv.Commit
	p     *plan
	err   error
	alone bool // it is to be tried alone
}

// A shared transaction is of at most maxShared commits, of shareBytes together.
const (
	maxShared  = 128
	shareBytes = 256 << 10
)

// commit lands m, together with others if it can.
func (s *sharer) commit(m member) error {
	// What is removed in ranges shows no keys, and without an id the others could not be looked up.
	if m.c.ID == (kv.CommitID{}) || len(m.p.ranges) > 0 || m.p.alone() || m.p.size() > shareBytes/4 {
		return s.land([]*member{&m})
	}
	w := &groupcommit.Waiter[member]{Value: m}
	leads, err := s.line.Enter(m.ctx, w)
	switch m := &w.Value; {
	case err != nil:
		return err
	case leads:
		defer w.Pass()
		if others := s.line.Take(fellows(m)); len(others) > 0 {
			s.lead(m, others)
		} else {
			m.alone = true
		}
		fallthrough
	default:
		if m.alone {
			return s.land([]*member{m})
		}
		return m.err
	}
}

// fellows returns a function that says of one member after the other whether it shares the
// transaction of first.
func fellows(first *member) func(*member) bool {
	n, size, taken := 1, first.p.size(), map[uint64]bool{} // hashes of keys
	take := func(key []byte) bool { taken[maphash.Bytes(seed, key)] = true; return true }
	free := func(key []byte) bool { return !taken[maphash.Bytes(seed, key)] }
	first.p.each(take)
	return func(m *member) bool {
		if n == maxShared || m.c.Durability != first.c.Durability || size+m.p.size() > shareBytes || !m.p.each(free) {
			return false
		}
		m.p.each(take)
		n, size = n+1, size+m.p.size()
		return true
	}
}

var seed = maphash.MakeSeed()

// lead makes one transaction of the commits of several members, the first of which leads, and
// tells each what became of its own.
func (s *sharer) lead(first *member, others []*groupcommit.Waiter[member]) {
	all := make([]*member, 1, 1+len(others))
	all[0] = first
	for _, w := range others {
		all = append(all, &w.Value)
	}
	err := error(kv.ErrUnknownOutcome) // if it panics
	defer func() {
		// Errors but these say that nothing was applied.
		alone := err != nil && !errors.Is(err, kv.ErrUnknownOutcome) && !errors.Is(err, ErrUnavailable)
		for _, m := range all {
			m.err, m.alone = err, alone
		}
		for _, w := range others {
			w.Done()
		}
	}()
	err = s.land(all)
}

// land makes one transaction of the commits of members, and returns what became of all.
func (s *sharer) land(all []*member) error {
	first := all[0]
	ctx, p := first.ctx, first.p
	ids := make([]kv.CommitID, len(all))
	for i, m := range all {
		ids[i] = m.c.ID
	}
	if len(all) > 1 {
		p = plans.Get().(*plan)
		defer plans.Put(p)
		p.reset()
		for _, m := range all {
			p.add(m.p)
		}
		p.sort()
		// If one of them is given up all are, and are tried alone.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		for _, m := range all {
			defer context.AfterFunc(m.ctx, cancel)()
		}
	}
	return s.db.land(ctx, ids, func(ctx context.Context, cn *conn, at place) error {
		for _, m := range all {
			if m.c.In != 0 && m.c.In != cn.in {
				return kv.ErrIncarnation
			}
		}
		return s.db.transact(ctx, cn, p, first.c.Durability, at)
	})
}
