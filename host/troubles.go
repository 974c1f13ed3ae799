package host

import (
	"log/slog"
	"sync"
	"time"
)

// A trouble is what may go wrong thousands of times in a second: what it is, the type of the
// actor, and the code of the error.
type trouble struct{ what, kind, code string }

const (
	// troublePause is how long a trouble isn't logged again.
	troublePause = time.Minute
	// maxTroubles bounds those that are remembered: actors give their errors codes of their own.
	maxTroubles = 1000
)

// troubles are those of late. Its methods are safe for concurrent use.
type troubles struct {
	mu sync.Mutex
	by map[trouble]*lastTold // +checklocks:mu
}

// A lastTold is when a trouble was last logged, and how many of it have come since.
type lastTold struct {
	at   time.Time
	more int
}

// note notes a trouble, and returns whether it is to be logged, with how many that were not.
func (s *troubles) note(t trouble, now time.Time) (say bool, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.by[t]
	if known != nil && now.Sub(known.at) < troublePause {
		known.more++
		return false, 0
	}
	if known != nil {
		more = known.more
	} else if s.by == nil || len(s.by) >= maxTroubles {
		s.by = map[trouble]*lastTold{}
	}
	s.by[t] = &lastTold{at: now}
	return true, more
}

// tell logs a trouble, unless it was logged within a minute. An error without a code is always
// logged: the next one may be another.
func (s *troubles) tell(log *slog.Logger, now time.Time, what, kind string, err error, attrs ...any) {
	say, more := true, 0
	if code := Code(err); code != codeInternal {
		say, more = s.note(trouble{what, kind, code}, now)
	}
	if !say {
		return
	}
	attrs = append(attrs, slog.Any("error", err))
	if more > 0 {
		attrs = append(attrs, slog.Int("more", more))
	}
	log.Error(what, attrs...)
}
