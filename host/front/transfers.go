package front

import (
	"container/list"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A transfer is something for which the Front waits for a client: a body or a message that
// is being read, the first message of a socket, an answer that is being written. So many
// clients that promise something and don't send it cost little, and harm no other client: a
// call counts as under way (Options.MaxCalls) only between its body and its answer.
//
// A transfer has a grace, and as much time more as what has moved takes at
// Options.MinRate. Where there are too many of them, a new one ends the one that has stood
// still for longest, not itself: a client that keeps sending is served.
type transfer struct {
	all    *transfers
	from   netip.Addr
	early  bool          // what it is for hasn't begun: Shutdown ends it
	grace  time.Duration // without anything having moved
	cut    func()        // ends it; called once at most, with the lock, and must not wait
	began  time.Time
	timer  *time.Timer
	moved  int64         // bytes  +checklocks:all.mu
	held   int64         // bytes of memory  +checklocks:all.mu
	err    error         // why it was cut off  +checklocks:all.mu
	inAll  *list.Element // nil when it is over  +checklocks:all.mu
	inFrom *list.Element // +checklocks:all.mu
}

// transfers are those of a Front.
type transfers struct {
	opts *Options

	mu   sync.Mutex
	list list.List                 // of *transfer, the one that has stood still for longest first  +checklocks:mu
	from map[netip.Addr]*list.List // the same, by address; none is empty  +checklocks:mu
	held int64                     // bytes of memory of all  +checklocks:mu
	shut error                     // why none that is early may begin  +checklocks:mu
}

// step is how much is read or written at once, so that it is seen to move.
const step = 16 << 10

// begin begins t, of which from, early, grace and cut are set.
func (ts *transfers) begin(t *transfer) *transfer {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if own := ts.from[t.from]; own != nil && own.Len() >= ts.opts.MaxTransfersPerAddress {
		first(own).over(errTooMany)
	}
	if ts.list.Len() >= ts.opts.MaxTransfers {
		first(&ts.list).over(errBusy)
	}
	own := ts.from[t.from]
	if own == nil {
		own = list.New()
		ts.from[t.from] = own
	}
	t.all, t.began = ts, time.Now()
	t.inAll, t.inFrom = ts.list.PushBack(t), own.PushBack(t)
	t.timer = time.AfterFunc(t.grace, func() { _ = t.end(errSlow) })
	if t.early && ts.shut != nil {
		t.over(ts.shut)
	}
	return t
}

func first(l *list.List) *transfer { return l.Front().Value.(*transfer) }

// end ends t, and returns why it was cut off, nil if it wasn't. If why isn't nil and t
// isn't over it is cut off for that.
func (t *transfer) end(why error) error {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.over(why)
	return t.err
}

// over ends t, unless it is over.
//
// +checklocks:t.all.mu
func (t *transfer) over(why error) {
	if t.inAll == nil {
		return
	}
	ts := t.all
	ts.list.Remove(t.inAll)
	own := ts.from[t.from]
	if own.Remove(t.inFrom); own.Len() == 0 {
		delete(ts.from, t.from)
	}
	ts.held -= t.held
	t.inAll, t.inFrom = nil, nil
	t.timer.Stop()
	if t.err = why; why != nil {
		t.cut()
	}
}

// move notes that n bytes have moved, and that t holds so many bytes of memory from now
// on. It returns why t was cut off, nil if it wasn't.
func (t *transfer) move(n int, held int64) error {
	ts := t.all
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.inAll == nil {
		return t.err
	}
	if n > 0 {
		t.moved += int64(n)
		ts.list.MoveToBack(t.inAll)
		ts.from[t.from].MoveToBack(t.inFrom)
		t.timer.Reset(time.Until(t.began.Add(t.grace + time.Duration(float64(t.moved)/float64(ts.opts.MinRate)*float64(time.Second)))))
	}
	ts.held += held - t.held
	t.held = held
	for e := ts.list.Front(); e != nil && ts.held > ts.opts.MaxTransferBytes; {
		still := e.Value.(*transfer)
		e = e.Next()
		if still != t && still.held > 0 {
			still.over(errBusy)
		}
	}
	return nil // alone it may hold more
}

// read reads all of r. After an error t is over.
func (t *transfer) read(r io.Reader) ([]byte, error) {
	b, n := make([]byte, 0, 512), 0
	var err error
	for err == nil {
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
		if err = t.move(n, int64(cap(b))); err == nil {
			n, err = r.Read(b[len(b):min(cap(b), len(b)+step)])
			b = b[:len(b)+n]
		}
	}
	if why := t.end(nil); why != nil {
		return nil, why
	}
	if err != io.EOF {
		return nil, err
	}
	return b, nil
}

// write writes all of b, and ends t.
func (t *transfer) write(w http.ResponseWriter, b []byte) {
	defer func() { _ = t.end(nil) }()
	for len(b) > 0 {
		n, err := w.Write(b[:min(len(b), step)])
		if err != nil || t.move(n, 0) != nil {
			return // a client that doesn't take it is gone
		}
		b = b[n:]
	}
	// What is left in the server's buffer is written while t can still be cut off.
	_ = http.NewResponseController(w).Flush()
}

// shutdown cuts off what is early, now and from now on; or everything.
func (ts *transfers) shutdown(why error, everything bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.shut = why
	for e := ts.list.Front(); e != nil; {
		t := e.Value.(*transfer)
		e = e.Next()
		if t.early || everything {
			t.over(why)
		}
	}
}
