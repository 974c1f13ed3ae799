package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/greenroomdb/greenroom/batch"
)

// StateOptions change what OpenState does. The zero value is fine.
type StateOptions[T any] struct {
	// Initial makes the first state of an actor that has none. It gets the Record for
	// its Input, and must not change it. nil means the zero T.
	Initial func(ctx context.Context, r *Record) (T, error)
	// OnChange is called after changes with the newest state, a copy: not for each
	// change, but after the last one. It is never called twice at once. A change that
	// it makes itself, with the context that it got, doesn't call it again. Its errors
	// and panics are logged.
	OnChange func(ctx context.Context, state T) error
}

// A State is the actor's state as a value of type T. It is safe for concurrent use.
//
// The state itself is the encoded bytes: what Get returns is a copy, and what is put in
// is copied, so no pointer into it is ever shared.
type State[T any] struct {
	r *Record

	mu   sync.Mutex
	raw  []byte // what view is of  +checklocks:mu
	view *T     // +checklocks:mu
}

// OpenState returns the state of an actor. If it has never had one, it is made now and
// stored, with the mark that the actor is initialised, on stable storage. Opening it
// twice gives two views of the same state.
//
// Errors: those of Initial; of the Codec, if what is stored is no T; *SizeError; those
// of the actor.
func OpenState[T any](ctx context.Context, r *Record, opts *StateOptions[T]) (*State[T], error) {
	if opts == nil {
		opts = &StateOptions[T]{}
	}
	s := &State[T]{r: r}
	if !r.Initialized() {
		var first T
		if opts.Initial != nil {
			var err error
			if first, err = opts.Initial(ctx, r); err != nil {
				return nil, err
			}
		}
		if err := r.initialize(ctx, first); err != nil {
			return nil, err
		}
	}
	if _, err := s.Get(); err != nil {
		return nil, err
	}
	if opts.OnChange != nil {
		r.watch(func(ctx context.Context) error {
			v, err := s.Get()
			if err != nil {
				return err
			}
			return opts.OnChange(ctx, v)
		})
	}
	return s, nil
}

// initialize stores the first state, unless there is one by now.
func (r *Record) initialize(ctx context.Context, first any) error {
	state, err := encode(r.opts.Codec, "state", first)
	if err != nil {
		return err
	}
	var b batch.Batch
	err = r.In(&b).do(func(t *Tx) error {
		if !t.init {
			t.init, t.state, t.newState, t.changed = true, state, true, true
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.commit(ctx, &b)
}

// Get returns the state as a value of its own.
func (s *State[T]) Get() (v T, err error) {
	raw, err := s.r.newest()
	if err != nil {
		return v, err
	}
	return v, s.r.decode(raw, &v)
}

// View is Get without the copy: what it returns is shared by all who look at the same
// state, and must not be changed. It stays as it is when the state changes.
func (s *State[T]) View() (*T, error) {
	raw, err := s.r.newest()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The bytes never change, so the same slice is the same state.
	if s.view != nil && len(raw) == len(s.raw) && &raw[0] == &s.raw[0] {
		return s.view, nil
	}
	v := new(T)
	if err := s.r.decode(raw, v); err != nil {
		return nil, err
	}
	s.raw, s.view = raw, v
	return v, nil
}

// Set replaces the state, with a durable commit of its own. Tx.SetState does it with other
// writes.
//
// Errors: those of the Codec, *SizeError, ErrClosed, those of the actor.
func (s *State[T]) Set(ctx context.Context, v T) error {
	return s.r.update(ctx, func(t *Tx) error { return t.SetState(v) })
}

// Mutate changes the state, with a durable commit of its own: fn gets a copy, and what it
// leaves there is the new state. It must not keep what it gets, nor commit anything of the
// actor. If fn returns an error nothing is changed, and Mutate returns it. Its other errors
// are those of Set. Package function Mutate does it with other writes.
func (s *State[T]) Mutate(ctx context.Context, fn func(v *T) error) error {
	return s.r.update(ctx, func(t *Tx) error { return Mutate(t, fn) })
}

// update changes the state by what stage does, and tells the watchers.
func (r *Record) update(ctx context.Context, stage func(t *Tx) error) error {
	var b batch.Batch
	t := r.In(&b)
	t.mine = true
	if err := stage(t); err != nil {
		return err
	}
	err := r.commit(ctx, &b)
	if err == nil && t.tell && ctx.Value(hookKey{r}) == nil {
		r.tell(ctx)
	}
	return err
}

func (r *Record) decode(raw []byte, v any) error {
	if err := r.opts.Codec.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("persist: decode the state: %w", err)
	}
	return nil
}

// RawState returns the state as it is encoded. It must not be changed.
func (r *Record) RawState() ([]byte, error) { return r.newest() }

func (r *Record) newest() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.usable()
}

// hookKey marks the context of a hook of one Record.
type hookKey struct{ r *Record }

// watch has fn called after changes.
func (r *Record) watch(fn func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, fn)
}

// tell calls the watchers, or has whoever does call them once more.
func (r *Record) tell(ctx context.Context) {
	// What is told has happened, whatever becomes of the caller that did it.
	ctx = context.WithValue(context.WithoutCancel(ctx), hookKey{r}, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again = true; r.telling {
		return
	}
	r.telling = true
	for r.again && r.usable() == nil {
		r.again = false
		watchers := r.watchers
		r.mu.Unlock()
		for _, fn := range watchers {
			if err := guard(func() error { return fn(ctx) }); err != nil {
				r.log.Error("persist: hook of a change", slog.Any("error", err))
			}
		}
		r.mu.Lock()
	}
	r.telling = false
}

// guard calls fn and turns a panic into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = errors.New(fmt.Sprint(p))
			}
			err = fmt.Errorf("%w: %w\n%s", ErrPanic, cause, debug.Stack())
		}
	}()
	return fn()
}
