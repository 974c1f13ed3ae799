package metering_test

import (
	"errors"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/metering"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A stay is one whose clock stands still.
type stay struct {
	metering.Stay
	*rig.Rig
	t   *testing.T
	now time.Time
}

func newStay(t *testing.T, told func(*actorstore.Usage)) *stay {
	s := &stay{Rig: rig.New(t, rig.Options{}), t: t, now: time.Unix(1000, 0)}
	s.Begin(s.Actor, s.clock, told)
	return s
}

func (s *stay) clock() time.Time { return s.now }

// commit stores what the actor has used, with a value.
func (s *stay) commit() error {
	var b batch.Batch
	s.Stage(&b, false)
	b.Put([]byte("key"), []byte("value"))
	return s.Actor.Commit(s.t.Context(), &b)
}

// want holds what isn't stored, and what is, against turns and times.
func (s *stay) want(what string, freshTurns int64, fresh time.Duration, turns int64, awake time.Duration) {
	s.t.Helper()
	if u := s.Unstored(); u.Turns != freshTurns || u.Awake != fresh || u.Failed() > u.Turns {
		s.t.Errorf("%s: not stored is %+v, want %d turns and %s", what, u, freshTurns, fresh)
	}
	snap, err := s.Store.View(s.t.Context(), s.Actor.ID())
	if errors.Is(err, actorstore.ErrUnknownActor) && turns == 0 {
		return
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if u := snap.Info().Usage; u.Turns != turns || u.Awake != awake {
		s.t.Errorf("%s: stored is %+v, want %d turns and %s", what, u, turns, awake)
	}
	if err := snap.Close(); err != nil {
		s.t.Error(err)
	}
}

// TestStay: what a commit stores isn't offered to the next one, what a failed one would have stored is, and what happens while one is made goes with the next.
func TestStay(t *testing.T) {
	s := newStay(t, nil)
	s.Turn()
	s.Turn()
	s.Fail("internal", "place")
	s.now = s.now.Add(10 * time.Second)
	s.want("before a commit", 2, 10*time.Second, 0, 0)

	s.Engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	if err := s.commit(); !errors.Is(err, batch.ErrTooLarge) {
		t.Fatal(err)
	}
	s.Engine.Heal()
	s.want("after a commit that failed", 2, 10*time.Second, 0, 0)
	s.Turn()
	s.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			s.Turn()
			s.now = s.now.Add(time.Second)
		}
		return nil
	})
	if err := s.commit(); err != nil {
		t.Fatal(err)
	}
	s.Engine.Hook(nil)
	s.want("after one that landed", 1, time.Second, 3, 10*time.Second)

	s.Sleep()
	s.now = s.now.Add(time.Hour)
	s.want("asleep", 1, time.Second, 3, 10*time.Second)
	s.Begin(s.Actor, s.clock, nil)
	s.now = s.now.Add(5*time.Minute - 2*time.Second)
	if s.Due(s.now) {
		t.Error("due too early")
	}
	if s.now = s.now.Add(time.Second); !s.Due(s.now) {
		t.Error("it isn't due")
	}
	if err := s.commit(); err != nil {
		t.Fatal(err)
	}
	s.want("awake again", 0, 0, 4, 5*time.Minute+10*time.Second)

	var b batch.Batch
	s.Stage(&b, false)
	s.Turn()
	if err := s.Actor.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	s.want("of a commit of nothing", 1, 0, 4, 5*time.Minute+10*time.Second)

	s.now = s.now.Add(-time.Hour)
	s.want("with a clock that was set back", 1, 0, 4, 5*time.Minute+10*time.Second)
}

// TestTell tells each thing once.
func TestTell(t *testing.T) {
	var told actorstore.Usage
	s := newStay(t, func(more *actorstore.Usage) { told.Add(more) })
	for range 3 {
		s.now = s.now.Add(time.Second)
		if err := s.commit(); err != nil {
			t.Fatal(err)
		}
		s.Tell()
		s.Tell()
	}
	if told.Awake != 3*time.Second || told.Written == 0 || told.Written != s.Actor.Written() {
		t.Errorf("told was %+v, written are %d bytes", told, s.Actor.Written())
	}
}
