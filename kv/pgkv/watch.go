package pgkv

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// watchEvery is how often watchers of a key are told to look at it, in case another host
// changed it. PostgreSQL's own way to tell, NOTIFY, makes all commits of a database wait
// for each other.
const watchEvery = 250 * time.Millisecond

// watches are the keys that are watched through one DB.
type watches struct {
	open atomic.Int64 // their number: commits ask for it, and mostly find none

	mu     sync.Mutex
	all    map[*watch]struct{} // +checklocks:mu
	timer  *time.Timer         // runs while there are any  +checklocks:mu
	closed bool                // +checklocks:mu
}

// A watch is one call of Watch.
type watch struct {
	key     []byte
	changed chan struct{} // has room for one message
}

func (w *watch) tell() {
	select {
	case w.changed <- struct{}{}:
	default: // it is told already
	}
}

// Watch returns a channel that receives at once when this DB changes key, and four
// times a second, because another host may have. See txn.Transactor.
func (db *DB) Watch(key []byte) (changed <-chan struct{}, stop func(), err error) {
	if err := db.life.enter(); err != nil {
		return nil, nil, err
	}
	defer db.life.leave()
	w := &watch{bytes.Clone(key), make(chan struct{}, 1)}
	db.watches.add(w)
	return w.changed, sync.OnceFunc(func() { db.watches.remove(w) }), nil
}

func (ws *watches) add(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watch]struct{}{}
	}
	ws.all[w] = struct{}{}
	ws.open.Add(1)
	if ws.timer == nil {
		ws.timer = time.AfterFunc(watchEvery, ws.tick)
	}
}

func (ws *watches) remove(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
	ws.open.Add(-1)
	// The receiver may have been told already, and is promised to hear nothing more.
	select {
	case <-w.changed:
	default:
	}
}

// tick tells everybody.
func (ws *watches) tick() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.tell()
	}
	if len(ws.all) == 0 || ws.closed {
		ws.timer = nil
		return
	}
	ws.timer.Reset(watchEvery)
}

// commit wakes the watchers of what ops change.
func (ws *watches) commit(ops []kv.Op) {
	if ws.open.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		for i := range ops {
			o := &ops[i]
			if o.Kind == kv.OpClearRange && bytes.Compare(w.key, o.Key) >= 0 && bytes.Compare(w.key, o.Value) < 0 ||
				o.Kind != kv.OpClearRange && bytes.Equal(w.key, o.Key) {
				w.tell()
				break
			}
		}
	}
}

// close tells everybody that the store is closed: their next look finds it.
func (ws *watches) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	for w := range ws.all {
		w.tell()
	}
}
