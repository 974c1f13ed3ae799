package actorstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A livesReader looks at whatever handle there is, and holds snapshots.
type livesReader struct {
	*lives
	rnd  *rand.Rand
	held []livesSnapshot
}

type livesSnapshot struct {
	*actorstore.Snapshot
	want livesState
}

func (r *livesReader) run(done <-chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		default:
		}
		runtime.Gosched()
		h := r.handle.Load()
		if h == nil {
			continue
		}
		err := r.newest(h)
		if err == nil && len(r.held) < 4 && r.rnd.IntN(2) == 0 {
			err = r.take(h)
		}
		if err != nil && !isGone(err) {
			return err
		}
		if err := r.look(); err != nil {
			return err
		}
	}
}

func (r *livesReader) close() (err error) {
	for _, s := range r.held {
		err = errors.Join(err, s.Close())
	}
	return err
}

// isGone says whether an error says no more than that another owner has the actor by now.
func isGone(err error) bool {
	return errors.Is(err, actorstore.ErrClosed) || errors.Is(err, actorstore.ErrFenced) || errors.Is(err, actorstore.ErrPoisoned)
}

// livesPage reads a key.
func livesPage(from actorstore.Reader, k int) (string, error) {
	v, err := from.Page(ctx, livesKey(k), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return "", nil
	}
	return string(v), err
}

// newest reads some keys of the newest state.
func (r *livesReader) newest(h *livesHandle) error {
	for range 4 {
		k, sure := r.rnd.IntN(livesKeys), r.sure.Load()
		v, err := livesPage(h, k)
		if err != nil {
			return err
		}
		known := false
		states := r.between(sure)
		for _, s := range states {
			known = known || s[k] == v
		}
		if !known {
			return fmt.Errorf("key %d is %q, which none of the %d states from %d on has", k, v, len(states), sure)
		}
	}
	return nil
}

// take takes a snapshot.
func (r *livesReader) take(h *livesHandle) error {
	sure := r.sure.Load()
	snap, err := h.PageSnapshot(ctx)
	if err != nil {
		return err
	}
	s := livesSnapshot{Snapshot: snap}
	if snap.Seq() > 0 {
		r.mu.Lock()
		index, ok := r.index[[2]uint64{h.life, snap.Seq()}]
		if ok {
			s.want = r.states[index]
		}
		r.mu.Unlock()
		if !ok || index < int(sure) {
			return errors.Join(fmt.Errorf("a snapshot is of commit %d of life %d, state %d, after state %d", snap.Seq(), h.life, index, sure), snap.Close())
		}
	}
	r.held = append(r.held, s)
	return nil
}

// look reads the snapshots, and closes one now and then.
func (r *livesReader) look() error {
	for i := len(r.held) - 1; i >= 0; i-- {
		s := r.held[i]
		for range 3 {
			k := r.rnd.IntN(livesKeys)
			v, err := livesPage(s, k)
			if err != nil && isGone(err) {
				break
			}
			if err != nil || v != s.want[k] {
				return fmt.Errorf("key %d of commit %d is %q, %v, want %q", k, s.Seq(), v, err, s.want[k])
			}
		}
		if r.rnd.IntN(4) == 0 {
			r.held = append(r.held[:i], r.held[i+1:]...)
			if err := s.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
