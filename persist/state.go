package persist

import (
	"bytes"
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
// is copied, so no pointer into it is ever shared. A change costs an encoding, and is
// refused at once if the state can't be stored.
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
	b.Late(func(b *batch.Batch) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		f, err := r.board(b)
		if err != nil || f.init {
			return err
		}
		f.init = true
		return f.setState(state)
	})
	return r.actor.Commit(ctx, &b)
}

// Get returns the newest state, saved or not, as a value of its own.
func (s *State[T]) Get() (v T, err error) {
	raw, err := s.r.newest()
	if err != nil {
		return v, err
	}
	return v, s.decode(raw, &v)
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
	if err := s.decode(raw, v); err != nil {
		return nil, err
	}
	s.raw, s.view = raw, v
	return v, nil
}

// Set replaces the state. It is in memory when Set returns, and stored by the next save.
// The context bounds the wait for a commit that brings a state of its own.
//
// Errors, which leave the state as it was: *SizeError, those of the Codec, ErrClosed,
// those of the actor.
func (s *State[T]) Set(ctx context.Context, v T) error {
	state, err := encode(s.r.opts.Codec, "state", v)
	if err != nil {
		return err
	}
	return s.r.change(ctx, func([]byte) ([]byte, error) { return state, nil })
}

// Mutate changes the state: fn gets a copy, and what it leaves there is the new state. If
// fn returns an error there is none, and Mutate returns it. fn may be called again if
// somebody else changes the state meanwhile; it must not keep what it gets, nor commit
// anything of the actor. Else it is like Set.
func (s *State[T]) Mutate(ctx context.Context, fn func(v *T) error) error {
	return s.r.change(ctx, s.mutation(fn))
}

// StageSet is Set, to be made by the commit of b, or not at all. Until b is settled
// everybody sees the state before it.
func (s *State[T]) StageSet(b *batch.Batch, v T) error {
	state, err := encode(s.r.opts.Codec, "state", v)
	if err != nil {
		return err
	}
	s.r.stageChange(b, func([]byte) ([]byte, error) { return state, nil })
	return nil
}

// StageMutate is Mutate, to be made by the commit of b, or not at all: fn is called
// during that commit, with the state that is the newest then, after what was staged
// before. An error of it makes the commit fail. It is called once more if b is joined to
// another batch after a failure. Set and Mutate wait from then on until b is settled, so
// neither fn, nor Late functions and hooks of b, may call them.
func (s *State[T]) StageMutate(b *batch.Batch, fn func(v *T) error) {
	s.r.stageChange(b, s.mutation(fn))
}

// mutation turns a change of a value into one of its bytes.
func (s *State[T]) mutation(fn func(v *T) error) func([]byte) ([]byte, error) {
	return func(raw []byte) ([]byte, error) {
		var v T
		if err := s.decode(raw, &v); err != nil {
			return nil, err
		}
		if err := fn(&v); err != nil {
			return nil, err
		}
		return encode(s.r.opts.Codec, "state", v)
	}
}

func (s *State[T]) decode(raw []byte, v *T) error {
	if err := s.r.opts.Codec.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("persist: decode the state: %w", err)
	}
	return nil
}

// RawState returns the newest state as it is encoded. It must not be changed.
func (r *Record) RawState() ([]byte, error) { return r.newest() }

func (r *Record) newest() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.usable()
}

// change replaces the state by what fn makes of it.
func (r *Record) change(ctx context.Context, fn func(old []byte) ([]byte, error)) error {
	for {
		old, gen, err := r.thawed(ctx)
		if err != nil {
			return err
		}
		state, err := fn(old)
		if err != nil {
			return err
		}
		changed, raced, err := r.install(gen, state)
		if raced {
			continue // fn has seen a state that is over
		}
		if err == nil && changed && ctx.Value(hookKey{r}) == nil {
			r.tell(ctx)
		}
		return err
	}
}

// thawed returns the state when no commit is bringing another.
func (r *Record) thawed(ctx context.Context) (state []byte, gen uint64, err error) {
	for {
		r.mu.Lock()
		state, gen, err = r.state, r.gen, r.usable()
		f := r.flight
		frozen := err == nil && f != nil && f.newState
		r.mu.Unlock()
		if !frozen {
			return state, gen, err
		}
		select {
		case <-f.over:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// install makes state the newest one if none has come since gen.
func (r *Record) install(gen uint64, state []byte) (changed, raced bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.usable(); err != nil {
		return false, false, err
	}
	if r.gen != gen || r.flight != nil && r.flight.newState {
		return false, true, nil
	}
	if bytes.Equal(r.state, state) {
		return false, false, nil
	}
	events, count := r.eventBytes, len(r.events)
	if f := r.flight; f != nil { // the larger list may be the one that stays
		events, count = max(events, f.eventBytes), max(count, len(f.events))
	}
	if n := recordSize(r.input, state, count, events); n > r.limit {
		return false, false, &SizeError{"state", n, r.limit}
	}
	r.state = state
	r.gen++
	r.warn()
	r.saveWithin(0)
	return true, false, nil
}

// stageChange has b replace the state by what fn makes of it.
func (r *Record) stageChange(b *batch.Batch, fn func(old []byte) ([]byte, error)) {
	b.Late(func(b *batch.Batch) error {
		r.mu.Lock()
		f, err := r.board(b)
		if err != nil {
			r.mu.Unlock()
			return err
		}
		if !f.newState { // nobody changes it from here on
			f.newState, f.state = true, r.state
		}
		old := f.state
		r.mu.Unlock()
		state, err := fn(old)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return f.setState(state)
	})
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
	// What is told has happened, whatever becomes of who did it.
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
