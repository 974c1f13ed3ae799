package signed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

const (
	mostLooks  = time.Minute // how long a list is used without another look at the row, at most
	fewestWait = time.Second // between two looks for secrets that aren't known
	mostTries  = 16          // of one replacement: each lost one means that another host has changed the row
)

// secrets are those of a store, as they were read last.
type secrets struct {
	engine       kv.Engine
	now          func() time.Time
	rotate, skew time.Duration
	every        time.Duration // between two looks at the row
	notRotated   func(error)
	random       func([]byte)

	seen    atomic.Pointer[sight]
	reading chan struct{} // holds an element while a goroutine reads
	tried   time.Time     // when the last look at the row ended, well or not  +checklocks:reading
}

// A sight is the secrets as they were at one time. It doesn't change.
type sight struct {
	list        []secret // newest first, at least one
	at          time.Time
	incarnation kv.Incarnation // in another one the secrets may be others
}

// current returns the secrets, newest first. It looks at the row when they weren't looked at for long.
func (s *secrets) current(ctx context.Context) ([]secret, error) {
	if list := s.fresh(); list != nil {
		return list, nil
	}
	return s.locked(ctx, s.fresh)
}

// find returns the secret of an id. It looks for one that isn't known, but at most once a second, and returns ErrSignature if it isn't there.
func (s *secrets) find(ctx context.Context, id uint32) (*secret, error) {
	list, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	if found := s.usable(list, id); found != nil {
		return found, nil
	}
	list, err = s.locked(ctx, func() []secret {
		list := s.seen.Load().list
		if s.usable(list, id) != nil || within(s.now(), s.tried, fewestWait) {
			return list
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if found := s.usable(list, id); found != nil {
		return found, nil
	}
	return nil, ErrSignature
}

// locked returns what known does, and what load does if that is nil. One goroutine at a time is in it.
func (s *secrets) locked(ctx context.Context, known func() []secret) ([]secret, error) {
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("signed: read the secrets: %w", ctx.Err())
	}
	defer func() { <-s.reading }()
	if list := known(); list != nil {
		return list, nil
	}
	return s.load(ctx, false)
}

// fresh returns the secrets that were read last, nil if the row must be looked at.
func (s *secrets) fresh() []secret {
	if seen := s.seen.Load(); within(s.now(), seen.at, s.every) && seen.incarnation == s.engine.Incarnation() {
		return seen.list
	}
	return nil
}

// within reports whether now is less than d after a time. It isn't if the clock was set back.
func within(now, after time.Time, d time.Duration) bool {
	passed := now.Sub(after)
	return passed >= 0 && passed < d
}

// load reads the secrets, and replaces the newest if it is too old. If that is refused, it returns those that there are; with strict set
// it returns the error.
func (s *secrets) load(ctx context.Context, strict bool) ([]secret, error) {
	defer func() { s.tried = s.now() }() // not earlier: a slow engine isn't asked more often
	var lost error
	for range mostTries {
		now, incarnation := s.now(), s.engine.Incarnation()
		row, list, err := readRow(ctx, s.engine)
		if err != nil {
			return nil, err
		}
		next := s.next(list, now)
		if next != nil {
			check := kv.Check{Key: rowKey, Value: row, Absent: row == nil}
			err = s.engine.Commit(ctx, &kv.Commit{Checks: []kv.Check{check}, Ops: []kv.Op{kv.Set(rowKey, appendRow(nil, next))}})
			if errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrUnknownOutcome) && ctx.Err() == nil {
				lost = err
				continue // what is stored now says which secret it is
			}
			if err != nil && (strict || list == nil || ctx.Err() != nil) {
				return nil, fmt.Errorf("signed: store a new secret: %w", err)
			}
			if err != nil {
				s.notRotated(err)
			} else {
				list = next
			}
		}
		s.seen.Store(&sight{list: list, at: now, incarnation: incarnation})
		return list, nil
	}
	return nil, fmt.Errorf("signed: store a new secret, %d times: %w", mostTries, lost)
}

// next returns the list with a new secret, nil if the newest isn't too old. A newest one of the future isn't: a host whose clock was set
// back, or is behind, doesn't replace what others made just now.
func (s *secrets) next(list []secret, now time.Time) []secret {
	if len(list) > 0 && list[0].created >= now.Add(-s.rotate).UnixMilli() {
		return nil
	}
	added := secret{created: now.UnixMilli()}
	for {
		// Random ids, and not the next number: what a failover of the engine takes back must not come again with another meaning.
		var id [4]byte
		s.random(id[:])
		added.id = uint32(id[0]) | uint32(id[1])<<8 | uint32(id[2])<<16 | uint32(id[3])<<24
		if !slices.ContainsFunc(list, func(old secret) bool { return old.id == added.id }) {
			break
		}
	}
	s.random(added.data[:])
	next := []secret{added}
	for i := range list {
		// The one before stays, whatever its age: others may sign with it until they look again.
		if len(next) < mostSecrets && !s.over(list, i, now) {
			next = append(next, list[i])
		}
	}
	return next
}

// over reports whether a secret is of no use any more: the one that replaced it has been there for so long that every host has seen
// it. While secrets are replaced in time, that is when the secret is older than twice Rotate and MaxSkew.
func (s *secrets) over(list []secret, i int, now time.Time) bool {
	return i > 0 && list[i-1].created < now.Add(-s.rotate-2*s.skew).UnixMilli()
}

// usable returns the secret of an id, nil if the list has none, or one that is over.
func (s *secrets) usable(list []secret, id uint32) *secret {
	for i := range list {
		if list[i].id == id && !s.over(list, i, s.now()) {
			return &list[i]
		}
	}
	return nil
}
