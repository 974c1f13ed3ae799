package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/internal/rollout"
)

var errBad = errors.New("bad")

// TestRun: what is tried, and what has failed, as the options say.
func TestRun(t *testing.T) {
	for name, tt := range map[string]struct {
		o    rollout.Options
		bad  []int // of 0 to 9
		want rollout.Counts
	}{
		"nothing fails":            {rollout.Options{}, nil, rollout.Counts{Tried: 10, Done: 10}},
		"all are tried":            {rollout.Options{Parallel: 3}, []int{0, 4, 9}, rollout.Counts{Tried: 10, Done: 10, Failed: 3}},
		"the canary fails":         {rollout.Options{Canary: 2, Parallel: 4}, []int{1}, rollout.Counts{Tried: 2, Done: 2, Failed: 1}},
		"another one than it":      {rollout.Options{Canary: 2, Parallel: 4}, []int{2}, rollout.Counts{Tried: 10, Done: 10, Failed: 1}},
		"so many have failed":      {rollout.Options{MaxFailures: 2}, []int{1, 3, 5}, rollout.Counts{Tried: 4, Done: 4, Failed: 2}},
		"the canary is all":        {rollout.Options{Canary: 20}, nil, rollout.Counts{Tried: 10, Done: 10}},
		"fewer than so many fail":  {rollout.Options{MaxFailures: 3}, []int{1, 3}, rollout.Counts{Tried: 10, Done: 10, Failed: 2}},
		"the canary, all its part": {rollout.Options{Canary: 3}, []int{0, 1, 2}, rollout.Counts{Tried: 3, Done: 3, Failed: 3}},
	} {
		var mu sync.Mutex
		var done []int
		told := 0
		got := rollout.Run(t.Context(), tt.o, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, func(n int) error {
			mu.Lock()
			defer mu.Unlock()
			if done = append(done, n); slices.Contains(tt.bad, n) {
				return errBad
			}
			return nil
		}, func(c rollout.Counts, n int, err error) {
			if told++; c.Done != told || (err != nil) != slices.Contains(tt.bad, n) {
				t.Errorf("%s: told of %d that %v, with %+v", name, n, err, c)
			}
		})
		slices.Sort(done)
		if got != tt.want || told != tt.want.Done || len(slices.Compact(done)) != tt.want.Tried {
			t.Errorf("%s: got %+v, want %+v; done are %v", name, got, tt.want, done)
		}
	}
}

// TestPace: so many at a time, and so many a second; nothing is begun, or counted, when the context has ended.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var at, most atomic.Int32
		got := rollout.Run(ctx, rollout.Options{Parallel: 3, Rate: 10}, make([]int, 1000), func(int) error {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			time.Sleep(250 * time.Millisecond)
			if time.Since(began) >= 10*time.Second {
				cancel()
			}
			return nil
		}, func(rollout.Counts, int, error) {})
		if got.Tried < 97 || got.Tried > 102 || got.Done >= got.Tried || most.Load() != 3 {
			t.Errorf("in ten seconds %+v, %d at a time", got, most.Load())
		}
	})
}

// TestLeft: what is left as it is is neither a failure nor a canary.
func TestLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		o         rollout.Options
		left, bad []int // of 0 to 9
		want      rollout.Counts
	}{
		"others are canaries":         {rollout.Options{Canary: 2}, []int{0, 1}, []int{3}, rollout.Counts{Tried: 4, Done: 4, Failed: 1}},
		"behind the canaries":         {rollout.Options{Canary: 2}, []int{0, 1}, []int{4}, rollout.Counts{Tried: 10, Done: 10, Failed: 1}},
		"it counts for no failure":    {rollout.Options{Canary: 1, MaxFailures: 2}, []int{0, 2, 3}, []int{4}, rollout.Counts{Tried: 10, Done: 10, Failed: 1}},
		"one is left, and one fails":  {rollout.Options{Canary: 2}, []int{0}, []int{1}, rollout.Counts{Tried: 2, Done: 2, Failed: 1}},
		"all are left":                {rollout.Options{Canary: 3, MaxFailures: 1}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, rollout.Counts{Tried: 10, Done: 10}},
		"a canary fails behind a few": {rollout.Options{Canary: 1}, []int{0, 1, 2}, []int{3}, rollout.Counts{Tried: 4, Done: 4, Failed: 1}},
	} {
		got := rollout.Run(t.Context(), tt.o, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, func(n int) error {
			switch {
			case slices.Contains(tt.left, n):
				return fmt.Errorf("%w: held", rollout.ErrLeft)
			case slices.Contains(tt.bad, n):
				return errBad
			}
			return nil
		}, func(rollout.Counts, int, error) {})
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
