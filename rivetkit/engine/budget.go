package engine

import (
	"context"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

const (
	// piece is how many bytes are read from a client, or written to a peer, in one step.
	piece = 64 << 10
	// free is how many bytes of an account count for the whole engine only: a small request never waits for the share of
	// its address or its actor.
	free = 64 << 10
	// stallTime is after how long without progress a client may be cut off that holds up others.
	stallTime = 2 * time.Second
)

// A budget bounds the memory of what clients send and what is sent to them, by bytes that have really come. Each remote
// address and each actor has a share of it. Its lock may be taken under core.mu, and is held for moments.
//
// What is read from a client waits while one of its shares is full, which it is by half: the rest is for what runners send, which
// can't wait. So that half-read bodies don't wait for each other, one client at a time may go on
// until its body is complete though a share is full. So a share has at most its limit and one body.
type budget struct {
	maxAddr, maxActor int64

	mu       sync.Mutex
	all      share                    // +checklocks:mu
	addrs    map[netip.Addr]*share    // +checklocks:mu
	actors   map[actorstore.ID]*share // +checklocks:mu
	accounts map[*account]struct{}    // +checklocks:mu
	line     []*waiting               // what waits to be read, in order  +checklocks:mu
	over     *account                 // the one that may go on though a share is full  +checklocks:mu
	tick     *time.Timer              // looks for stalled clients while the line isn't empty  +checklocks:mu
}

// A share is a part of the budget.
type share struct {
	limit, used int64
	accounts    int
}

// reads returns how many bytes may be used when something is read from a client.
func (s *share) reads() int64 { return s.limit / 2 }

// A waiting is a step of an account that waits until there is room.
type waiting struct {
	a     *account
	n     int64
	ready chan struct{} // closed when the bytes are the account's, or the account has ended
}

// An account is what one client has in memory: one request, or one WebSocket.
type account struct {
	b           *budget
	addr, actor *share // actor is nil for a request that reaches no actor
	from        netip.Addr
	to          actorstore.ID
	cut         func() // ends the client; it doesn't wait. Called once at most, under budget.mu

	held   int64
	lent   int64         // bytes of held that wait to be written to a runner
	room   chan struct{} // closed when lent has become less; nil if nothing waits for that
	since  [2]time.Time  // since when the engine waits for the client to send, and to take, a piece; or zero
	closed bool          // the client has gone: it has what it has lent, and nothing more
}

// The ways in which a client makes progress.
const (
	sending = iota
	taking
)

func newBudget(o *Options) *budget {
	b := &budget{
		// Beside a half and the one body that may be beyond there is room for an answer.
		maxAddr: max(o.Memory/4, 4*o.MaxBody), maxActor: max(o.Memory/8, 4*o.MaxBody),
		all: share{limit: o.Memory}, addrs: map[netip.Addr]*share{}, actors: map[actorstore.ID]*share{}, accounts: map[*account]struct{}{},
	}
	return b
}

// open returns an account of a client at an address that speaks with an actor, or with none. The caller closes it. cut is called
// under the budget's lock if the client is to be ended, and doesn't wait.
func (b *budget) open(from netip.Addr, to actorstore.ID, cut func()) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &account{b: b, from: from, to: to, cut: cut, addr: join(b.addrs, from, b.maxAddr)}
	if to != (actorstore.ID{}) {
		a.actor = join(b.actors, to, b.maxActor)
	}
	b.accounts[a] = struct{}{}
	return a
}

func join[K comparable](shares map[K]*share, key K, limit int64) *share {
	s := shares[key]
	if s == nil {
		s = &share{limit: limit}
		shares[key] = s
	}
	s.accounts++
	return s
}

func part[K comparable](shares map[K]*share, key K, s *share) {
	if s.accounts--; s.accounts == 0 {
		delete(shares, key)
	}
}

// close gives back all that the account has, and has lent as soon as that is written. It gets nothing more.
func (a *account) close() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.end()
}

// +checklocks:a.b.mu
func (a *account) end() {
	if a.closed {
		return
	}
	b := a.b
	a.pay(min(a.lent, a.held) - a.held)
	a.closed, a.since = true, [2]time.Time{}
	if b.over == a {
		b.over = nil
	}
	b.line = slices.DeleteFunc(b.line, func(w *waiting) bool {
		if w.a == a {
			close(w.ready)
		}
		return w.a == a
	})
	a.forget()
	b.admit()
}

// forget removes an account that has nothing any more.
//
// +checklocks:a.b.mu
func (a *account) forget() {
	b := a.b
	if _, is := b.accounts[a]; !is || !a.closed || a.lent > 0 {
		return
	}
	a.pay(-a.held)
	delete(b.accounts, a)
	part(b.addrs, a.from, a.addr)
	if a.actor != nil {
		part(b.actors, a.to, a.actor)
	}
}

// shares calls yield with each share of the account, and how much more it has of that if the account has n bytes more.
//
// +checklocks:a.b.mu
func (a *account) shares(n int64) iter.Seq2[*share, int64] {
	return func(yield func(*share, int64) bool) {
		own := max(a.held+n-free, 0) - max(a.held-free, 0)
		_ = yield(&a.b.all, n) && (own == 0 || yield(a.addr, own) && (a.actor == nil || yield(a.actor, own)))
	}
}

// +checklocks:a.b.mu
func (a *account) pay(n int64) {
	for s, n := range a.shares(n) {
		s.used += n
	}
	a.held += n
}

// take waits until n bytes of the client may be in memory. If it returns an error they may not.
func (a *account) take(ctx context.Context, n int64) error {
	b := a.b
	b.mu.Lock()
	w := &waiting{a: a, n: n}
	switch {
	case a.closed:
		b.mu.Unlock()
		return errBusy
	case len(b.line) == 0 && b.fits(w, map[*share]bool{}):
		a.pay(n)
		b.mu.Unlock()
		return nil
	}
	w.ready = make(chan struct{})
	b.line = append(b.line, w)
	b.admit()
	b.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.line, w); i >= 0 {
		b.line = slices.Delete(b.line, i, i+1)
		b.admit()
		return errBusy
	}
	if a.closed {
		return errBusy
	}
	return nil
}

// charge notes n bytes for the client that have come from a runner, and reports whether there is room. Stalled clients are cut
// off for them.
func (a *account) charge(n int64) bool {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for !a.closed {
		var full *share
		for s, n := range a.shares(n) {
			if s.used+n > s.limit {
				full = s
			}
		}
		if full == nil {
			a.pay(n)
			return true
		}
		if !b.relieve(full) {
			return false
		}
	}
	return false
}

// admit lets those that wait go on, as far as there is room: none of a share overtakes another one.
//
// +checklocks:b.mu
func (b *budget) admit() {
	if len(b.line) == 0 {
		return
	}
	full := map[*share]bool{}
	b.line = slices.DeleteFunc(b.line, func(w *waiting) bool {
		if !b.fits(w, full) {
			return false
		}
		w.a.pay(w.n)
		close(w.ready)
		return true
	})
	if len(b.line) > 0 && b.tick == nil {
		b.tick = time.AfterFunc(stallTime/4, b.look)
	}
}

// fits reports whether w may go on. If not, the shares that it lacks are added to full.
//
// +checklocks:b.mu
func (b *budget) fits(w *waiting, full map[*share]bool) bool {
	if w.a == b.over {
		return true
	}
	fits, over := true, false
	for s, n := range w.a.shares(w.n) {
		fits = fits && !full[s] && s.used+n <= s.reads()
		over = over || s.used > s.reads()
	}
	if fits {
		return true
	}
	if b.over == nil && !over {
		b.over = w.a
		return true
	}
	for s, n := range w.a.shares(w.n) {
		if s.used+n > s.reads() {
			full[s] = true
		}
	}
	return false
}

// look cuts off stalled clients for which others wait.
func (b *budget) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick = nil
	for _, w := range slices.Clone(b.line) {
		if !slices.Contains(b.line, w) {
			continue // it goes on
		}
		for s, n := range w.a.shares(w.n) {
			if s.used+n > s.reads() && b.relieve(s) {
				break
			}
		}
	}
	b.admit() // which looks again
}

// relieve cuts off the stalled client that has most of a share. It returns false if no client is stalled.
//
// +checklocks:b.mu
func (b *budget) relieve(s *share) bool {
	var most *account
	now := time.Now()
	for a := range b.accounts {
		if (s == &b.all || a.held > free && (s == a.addr || s == a.actor)) && a.stalled(now) && (most == nil || a.own() > most.own()) {
			most = a
		}
	}
	if most == nil {
		return false
	}
	most.cut()
	most.end()
	return true
}

// own returns how many bytes are given back at once if the client ends.
//
// +checklocks:a.b.mu
func (a *account) own() int64 { return a.held - a.lent }

// stalled reports whether the engine has waited for the client for long, and has bytes of it.
//
// +checklocks:a.b.mu
func (a *account) stalled(now time.Time) bool {
	for _, at := range a.since {
		if a.own() > 0 && !at.IsZero() && now.Sub(at) >= stallTime {
			return true
		}
	}
	return false
}

// openSockets counts WebSockets of clients.
type openSockets struct {
	most int // 0 for any number

	mu   sync.Mutex
	all  int                // +checklocks:mu
	from map[netip.Addr]int // +checklocks:mu
}

// admit counts a WebSocket from an address until leave is called, unless there are as many as there may be: half of them may be from
// one address.
func (o *openSockets) admit(from netip.Addr) (leave func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most > 0 && (o.all >= o.most || o.from[from] >= max(o.most/2, 1)) {
		return nil, errBusy
	}
	o.all++
	o.from[from]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all--
		if o.from[from]--; o.from[from] == 0 {
			delete(o.from, from)
		}
	}, nil
}
