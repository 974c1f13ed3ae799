package signed

import (
	"container/list"
	"math"
	"sync"
	"time"
)

const (
	mostSessions = 1024
	windowSize   = 1 << 16 // counters that a window remembers
)

// windows are the sessions that have sent something, and what of it was taken.
//
// A session that is unused for long is forgotten. That lets nothing be taken twice: what came last was sent at most MaxSkew later, by its own
// time, than it was taken, and is out of time 2*MaxSkew after that. It would be in time again if the clock was set back; so the
// latest time of what is forgotten is kept, and nothing that was sent by then is taken from a session that isn't known.
type windows struct {
	idle time.Duration // after which a session is forgotten

	mu        sync.Mutex
	sessions  map[[sessionSize]byte]*list.Element // +checklocks:mu
	used      list.List                           // of *window, the one that was used last in front  +checklocks:mu
	forgotten int64                               // the latest time of a request that is forgotten, ms  +checklocks:mu
}

// A window is the last counters of one session.
type window struct {
	session [sessionSize]byte
	used    time.Time
	after   int64                   // what was sent by then may be forgotten, ms
	latest  int64                   // the latest time of a request, ms
	top     uint64                  // the highest counter that was taken
	taken   [windowSize / 64]uint64 // the bit of a counter, modulo windowSize, says that it was taken: of top and the windowSize-1 below it
}

func newWindows(idle time.Duration) *windows {
	return &windows{idle: idle, sessions: map[[sessionSize]byte]*list.Element{}, forgotten: math.MinInt64}
}

// take takes a message that is authentic and in time, once.
func (ws *windows) take(now time.Time, m *message) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.sessions[m.session]
	if e == nil {
		ws.forget(now)
		if m.sent <= ws.forgotten {
			return ErrSkew
		}
		if len(ws.sessions) == mostSessions {
			return ErrBusy
		}
		w := &window{session: m.session, used: now, after: ws.forgotten, latest: m.sent, top: m.counter}
		w.mark(m.counter)
		ws.sessions[m.session] = ws.used.PushFront(w)
		return nil
	}
	w := e.Value.(*window)
	if m.sent <= w.after {
		return ErrSkew
	}
	if !w.take(m.counter) {
		return ErrReplayed
	}
	w.used, w.latest = now, max(w.latest, m.sent)
	ws.used.MoveToFront(e)
	ws.forget(now)
	return nil
}

// forget forgets the sessions that are unused for long.
func (ws *windows) forget(now time.Time) {
	for e := ws.used.Back(); e != nil; e = ws.used.Back() {
		w := e.Value.(*window)
		if now.Sub(w.used) <= ws.idle {
			return
		}
		ws.forgotten = max(ws.forgotten, w.latest)
		ws.used.Remove(e)
		delete(ws.sessions, w.session)
	}
}

// take marks a counter, and reports whether it wasn't marked and isn't below the window.
func (w *window) take(counter uint64) bool {
	switch {
	case counter > w.top:
		w.clear(w.top+1, min(counter-w.top, windowSize))
		w.top = counter
	case w.top-counter >= windowSize || w.marked(counter):
		return false
	}
	w.mark(counter)
	return true
}

// clear unmarks n counters.
func (w *window) clear(counter, n uint64) {
	for n > 0 {
		bit := counter % 64
		some := min(64-bit, n)
		w.taken[counter%windowSize/64] &^= (1<<some - 1) << bit // 1<<64 is 0, so that all bits are cleared then
		counter, n = counter+some, n-some
	}
}

func (w *window) mark(counter uint64) { w.taken[counter%windowSize/64] |= 1 << (counter % 64) }

func (w *window) marked(counter uint64) bool {
	return w.taken[counter%windowSize/64]>>(counter%64)&1 != 0
}
