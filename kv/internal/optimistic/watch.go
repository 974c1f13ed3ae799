package optimistic

import (
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/tidwall/btree"
)

// watches are the keys that callers watch.
type watches struct {
	keys btree.Map[string, []chan struct{}]
}

func (w *watches) len() int { return w.keys.Len() }

// changed wakes the watchers of what an operation writes. It never blocks: a full
// channel already holds news.
func (w *watches) changed(o *kv.Op) {
	if w.keys.Len() == 0 {
		return
	}
	if o.Kind != kv.OpClearRange {
		if chans, ok := w.keys.Get(string(o.Key)); ok {
			tell(chans)
		}
		return
	}
	end := string(o.Value)
	w.keys.Ascend(string(o.Key), func(key string, chans []chan struct{}) bool {
		if key >= end {
			return false
		}
		tell(chans)
		return true
	})
}

func tell(chans []chan struct{}) {
	for _, c := range chans {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Wake wakes all watchers, because the store is closed. The caller holds the lock.
func (c *Core) Wake() {
	c.watches.keys.Scan(func(_ string, chans []chan struct{}) bool {
		tell(chans)
		return true
	})
}

// Watch is txn.Transactor's.
func (c *Core) Watch(key []byte) (changed <-chan struct{}, stop func(), err error) {
	ch, k := make(chan struct{}, 1), string(key)
	c.store.Lock()
	defer c.store.Unlock()
	chans, _ := c.watches.keys.Get(k)
	c.watches.keys.Set(k, append(chans[:len(chans):len(chans)], ch))
	c.busy = true
	return ch, sync.OnceFunc(func() { c.unwatch(k, ch) }), nil
}

func (c *Core) unwatch(key string, ch chan struct{}) {
	c.store.Lock()
	defer c.store.Unlock()
	chans, _ := c.watches.keys.Get(key)
	i := slices.Index(chans, ch)
	if len(chans) == 1 {
		c.watches.keys.Delete(key)
	} else {
		c.watches.keys.Set(key, slices.Delete(slices.Clone(chans), i, i+1))
	}
	c.expire()
}
