// Package rollout does something to many things: a few of them first, several at a time, at a rate, until so many have failed.
package rollout

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Options say how. The zero value does one after the other, whatever fails.
type Options struct {
	Parallel    int     // how many are done at a time; 0 means one
	Canary      int     // so many are done first, one after the other, and the others only if none of these has failed; ErrLeft doesn't count
	Rate        float64 // how many are begun in a second at most; 0 means as many as go
	MaxFailures int     // after so many failures no other one is begun; 0 means that all are tried
}

// Counts are how far a run is: Tried have begun, Done have ended, and Failed of these failed.
type Counts struct{ Tried, Done, Failed int }

// ErrLeft is what do returns, or wraps, for something that was left as it is for a reason that says nothing of the others.
var ErrLeft = errors.New("rollout: left as it is")

// Run calls do with each of all, and told after each, one call at a time, with its error. When ctx ends no other one is begun, and what ends then isn't counted. Run returns when all
// calls of do have.
func Run[T any](ctx context.Context, o Options, all []T, do func(T) error, told func(Counts, T, error)) Counts {
	r := &run[T]{o: o, began: time.Now(), do: do, told: told}
	for more := o.Canary; more > 0 && len(all) > 0 && r.Failed == 0; more = r.left {
		n := min(more, len(all))
		r.left = 0
		r.some(ctx, all[:n], 1)
		all = all[n:]
	}
	if r.Failed == 0 {
		r.some(ctx, all, max(o.Parallel, 1))
	}
	return r.Counts
}

type run[T any] struct {
	o     Options
	began time.Time
	do    func(T) error
	told  func(Counts, T, error)

	mu     sync.Mutex
	Counts     // +checklocks:mu
	left   int // of those that have ended, by ErrLeft  +checklocks:mu
}

// some does some of all, so many at a time.
func (r *run[T]) some(ctx context.Context, all []T, at int) {
	free := make(chan struct{}, at)
	var working sync.WaitGroup
	defer working.Wait()
	for _, it := range all {
		free <- struct{}{}
		if !r.next(ctx) {
			return
		}
		working.Go(func() {
			defer func() { <-free }()
			err := r.do(it)
			if ctx.Err() != nil {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			switch r.Done++; {
			case errors.Is(err, ErrLeft):
				r.left++
			case err != nil:
				r.Failed++
			}
			r.told(r.Counts, it, err)
		})
	}
}

// next waits until the next one may be begun, and says whether it may.
func (r *run[T]) next(ctx context.Context) bool {
	r.mu.Lock()
	n, enough := r.Tried, r.o.MaxFailures > 0 && r.Failed >= r.o.MaxFailures
	r.mu.Unlock()
	if enough {
		return false
	}
	if r.o.Rate > 0 {
		t := time.NewTimer(time.Until(r.began.Add(time.Duration(float64(n) / r.o.Rate * float64(time.Second)))))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	r.Tried++
	r.mu.Unlock()
	return true
}
