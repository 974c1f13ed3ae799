package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

const (
	// readerCount is how many readers sqlite/readers has.
	readerCount = 4
	// soloTime is how long they read alone, to see what they can do.
	soloTime = 400 * time.Millisecond
	// tick is how far a reader may be ahead of its pace before it waits.
	tick = time.Millisecond
)

// metronome opens a side that has done its operations at its pace, by its own clock.
func metronome(perSecond func(*stand) float64) func(*stand) {
	return func(s *stand) {
		s.run = func(int) error { return nil }
		s.say = func(n int, t *tally) {
			t.took, t.cpu = time.Duration(float64(n)/perSecond(s)*float64(time.Second)), math.NaN()
		}
	}
}

// pacePeer is the peer of sqlite/readers: readers that keep the pace, whatever happens.
const pacePeer = "pace"

// openReaders opens sqlite/readers: connections that read ranges of 100 rows at half the
// rate that they reach alone, beside one that commits one row after the other. The ratio is
// the part of that rate which they keep.
func openReaders(s *stand) {
	connect := loaded(s, anActor, name(0), s.sizes.point)
	var reading []worker
	for range readerCount {
		reading = append(reading, repeat(startRange(s, connect())))
	}
	write := appends(s, connect(), 1, blobSize)
	// They read alone for a while.
	start, done := time.Now(), 0
	for ; time.Since(start) < soloTime; done += 16 * readerCount {
		check(s.ctx.Err())
		all := countdown(16 * readerCount)
		check(together(reading, func(int) func() bool { return all }))
	}
	*s.pace = rate(done, time.Since(start)) / 2
	var spent time.Duration // from the beginning of each run until the last reader was done
	s.say = func(_ int, t *tally) { t.took = spent }
	// The writer begins before the readers, and ends after them.
	s.run = func(n int) error {
		ctx, stop := context.WithCancel(s.ctx)
		var writing sync.WaitGroup
		var failed error
		writing.Go(func() {
			for failed == nil {
				if failed = write(); ctx.Err() != nil {
					return
				}
			}
		})
		start := time.Now()
		err := together(reading, func(i int) func() bool {
			// The first ones take what is left over.
			return paced(s, start, *s.pace/readerCount, (n+readerCount-1-i)/readerCount)
		})
		spent = time.Since(start)
		stop()
		writing.Wait()
		return errors.Join(err, failed, s.ctx.Err())
	}
}

// paced says n times that there is more, each time when that is due, and no longer when the
// run is interrupted.
func paced(s *stand, start time.Time, perSecond float64, n int) (more func() bool) {
	done := 0
	return func() bool {
		if done == n {
			return false
		}
		done++
		due := time.Duration(float64(done) / perSecond * float64(time.Second))
		if ahead := due - time.Since(start); ahead > tick {
			select {
			case <-time.After(ahead):
			case <-s.ctx.Done():
				return false
			}
		}
		return true
	}
}
