// Package conn keeps the connections of an actor: who is connected, what each has
// subscribed to, which messages went to and fro, and what the actor has noted about it.
//
// A hibernating connection outlives the actor's stay in memory: its client stays
// connected to a gateway, the actor sleeps, and when it wakes its Set is as it was. Such
// a connection is one record under a key of its own. An ephemeral one lives as long as
// its transport, and never touches the store.
//
//	set, err := conn.Open(ctx, actor, nil)           // everything that was stored is back
//	c, err := set.Create(conn.Info{Gateway: g, …})   // saved soon
//	c, ok := set.Find(gateway, request)              // the client's gateway is back
//	ahead, err := c.Received(index, len(message))    // acknowledged when it is saved
//	err = set.Disconnect(ctx, c, "closed by client") // gone here and in the store
//
// # Saving
//
// Changes are made in memory and saved together: throttled, within Options.MaxWait
// where a gateway waits for it, at once when much is waiting or Save is called. A Set is
// also a batch.Stager, so that whoever saves the actor's own record has the changed
// connections land in the same commit. What is written is put together under the
// actor's commit lock, when the batch is about to land: so no save that was staged
// before a connection went away brings its record back, and each record in the store is
// the newest at the time of its commit. A save that fails leaves everything as changed
// as it was.
//
// A gateway keeps what it sent until it is told that it is safe. Options.OnAck is told
// so of what is on stable storage, and of nothing else.
//
// # What it is not
//
// No network: a transport is whatever the caller attaches. The order of a connection's
// messages, and what they mean, is the caller's as well.
package conn

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
)

// Options change what a Set does. The zero value is fine.
type Options struct {
	// Interval is the least time between the starts of two saves that nobody asked
	// for; 0 means 10 s.
	Interval time.Duration
	// MaxWait is how long a message index waits to be saved, at most; 0 means 5 s.
	MaxWait time.Duration
	// MaxBuffered is how many bytes of messages of one connection a gateway should have to
	// keep for it: as many start a save at once, and 16,384 messages do. 0 means 500,000.
	MaxBuffered int
	// PartingTime is how long Close waits for OnDisconnect; 0 means 1.5 s.
	PartingTime time.Duration

	// Save is called, on a goroutine of its own, when changes are to be saved; nil means
	// Set.Save. It is for who saves more than connections with one commit: it must have
	// the Set staged, and return when that is on stable storage.
	Save func(ctx context.Context) error
	// OnAck is told which messages may be forgotten by their gateways, because the
	// connections that received them are on stable storage. Calls come one at a time, of
	// one connection in order, without a lock. The slice is the callee's.
	OnAck func(acks []Ack)
	// OnDisconnect is called for a connection that has just gone, before its record is
	// deleted. An error is logged and changes nothing. After a crash before the delete it
	// is called again.
	OnDisconnect func(ctx context.Context, c *Conn, reason string) error

	// Now is the time of day; nil means time.Now.
	Now func() time.Time
	// Logger gets what nobody else is told; nil means slog.Default().
	Logger *slog.Logger
	// Metrics is told what Metrics() lists; nil is nobody.
	Metrics metrics.Sink
}

// orDefault returns the options with nothing left to chance.
func (o *Options) orDefault() Options {
	var full Options
	if o != nil {
		full = *o
	}
	full.Interval = cmp.Or(full.Interval, 10*time.Second)
	full.MaxWait = cmp.Or(full.MaxWait, 5*time.Second)
	full.MaxBuffered = cmp.Or(full.MaxBuffered, 500_000)
	full.PartingTime = cmp.Or(full.PartingTime, 1500*time.Millisecond)
	if full.Logger == nil {
		full.Logger = slog.Default()
	}
	return full
}

// request is how a gateway knows a connection.
type request struct {
	gateway GatewayID
	request RequestID
}

// A Set is the connections of an actor. It is safe for concurrent use, and so are its
// connections. It is the only one that writes their records.
type Set struct {
	actor *actorstore.Actor
	opts  Options
	limit int    // bytes of a record
	free  func() // lets another Set keep the namespace

	ctx    context.Context // of saves that nobody asked for
	cancel context.CancelFunc
	clock  *alarm.Clock
	saver  *alarm.Source // rings when a save is due
	syncer *alarm.Source // rings when acks wait for stable storage

	changed batch.Dirty[ID] // connections whose records are not as they are

	mu       sync.Mutex
	conns    map[ID]*Conn        // +checklocks:mu
	requests map[request][]*Conn // more than one only if stored so  +checklocks:mu
	events   map[string][]*Conn  // who has subscribed, in that order  +checklocks:mu
	deletes  map[ID]*Conn        // gone, but perhaps stored  +checklocks:mu

	quarantined []Quarantined // +checklocks:mu
	schedule    schedule      // +checklocks:mu
	acks        acks          // +checklocks:mu
	lastLanded  uint64        // see Landed  +checklocks:mu
	// closing: nothing new is let in. closed: nothing is written any more.
	closing, closed bool // +checklocks:mu
}

var _ batch.Stager = (*Set)(nil)

// Open returns the Set of an actor's connections, with all that are stored, none of
// them with a transport: Cleanup removes those whose clients are not coming back. A
// record that can't be read, or whose rows are damaged, is logged and quarantined. A nil
// opts is the zero Options.
//
// There is one Set of an actor at a time: another is actorstore.ErrKept. It must be
// closed before the actor is.
func Open(ctx context.Context, actor *actorstore.Actor, opts *Options) (_ *Set, err error) {
	free, err := actor.Keep(actorstore.NamespaceConnections)
	if err != nil {
		return nil, fmt.Errorf("conn: open: %w", err)
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	l := actor.Limits()
	s := &Set{
		actor: actor, opts: opts.orDefault(), free: free,
		limit:    min(l.ValueSize, l.Payload-batch.WrapperBytes-len(key(newID()))),
		conns:    map[ID]*Conn{},
		requests: map[request][]*Conn{},
		events:   map[string][]*Conn{},
		deletes:  map[ID]*Conn{},
	}
	if err := s.restore(ctx); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.clock = alarm.New(&alarm.Options{Now: s.opts.Now})
	s.saver = s.clock.Source(s.due)
	s.syncer = s.clock.Source(s.sync)
	return s, nil
}

// restore reads all that is stored.
func (s *Set) restore(ctx context.Context) error {
	s.mu.Lock() // nobody else has s yet, but what is called wants it
	defer s.mu.Unlock()
	for e, err := range List(ctx, s.actor) {
		if err != nil {
			return err
		}
		if e.Err != nil {
			s.opts.Logger.Error("a stored connection can't be read and is left alone",
				"actor", s.actor.ID().String(), "connection", string(e.ID), "error", e.Err)
			s.quarantined = append(s.quarantined, Quarantined{e.ID, e.Size, e.Err, e.Damaged, e.Stray})
			s.count(metricQuarantined, 1)
			continue
		}
		// Whether its last message was acknowledged is not stored: the gateway is told once
		// more, with the next save of the connection.
		c := &Conn{set: s, rec: *e.Record, prior: batch.Stored(e.Size), unacked: true}
		c.rec.Subscriptions = unique(c.rec.Subscriptions)
		s.enter(c)
	}
	return nil
}

// unique returns events without those that came before.
func unique(events []string) []string {
	var kept []string
	for _, event := range events {
		if !slices.Contains(kept, event) {
			kept = append(kept, event)
		}
	}
	return kept
}

// enter puts c where it is found.
//
// +checklocks:s.mu
func (s *Set) enter(c *Conn) {
	s.conns[c.rec.ID] = c
	if !c.ephemeral {
		s.requests[c.request()] = append(s.requests[c.request()], c)
	}
	for _, event := range c.rec.Subscriptions {
		s.events[event] = append(s.events[event], c)
	}
}

// leave undoes enter.
//
// +checklocks:s.mu
func (s *Set) leave(c *Conn) {
	c.gone, c.transport = true, nil
	delete(s.conns, c.rec.ID)
	if !c.ephemeral {
		without(s.requests, c.request(), c)
	}
	for _, event := range c.rec.Subscriptions {
		without(s.events, event, c)
	}
	s.count(metricDisconnected, 1)
}

// without removes c from the list under k, and the list when it is empty.
func without[K comparable](lists map[K][]*Conn, k K, c *Conn) {
	list := lists[k]
	if i := slices.Index(list, c); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if lists[k] = list; len(list) == 0 {
		delete(lists, k)
	}
}

// check says why nothing may be changed any more.
func (s *Set) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkLocked()
}

// +checklocks:s.mu
func (s *Set) checkLocked() error {
	if s.closed {
		return ErrClosed
	}
	return s.actor.Err()
}

// Get returns the connection with that id.
func (s *Set) Get(id ID) (c *Conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok = s.conns[id]
	return c, ok
}

// Find returns the hibernating connection that a gateway knows under those ids: a client
// is there again, and Attach gives its connection the new transport.
func (s *Set) Find(g GatewayID, r RequestID) (c *Conn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.requests[request{g, r}]; len(list) > 0 {
		return list[0], true
	}
	return nil, false
}

// Conns returns all connections, in the order of their ids.
func (s *Set) Conns() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted(nil)
}

// sorted returns those for which want is true, all if it is nil, in the order of their ids.
//
// +checklocks:s.mu
func (s *Set) sorted(want func(*Conn) bool) []*Conn {
	list := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		if want == nil || want(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, byID)
	return list
}

func byID(a, b *Conn) int { return cmp.Compare(a.rec.ID, b.rec.ID) }

// Len returns the number of connections.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Subscribers appends to dst the connections that have subscribed to event, in the order
// in which they did.
func (s *Set) Subscribers(dst []*Conn, event string) []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(dst, s.events[event]...)
}

// Close ends the Set: ephemeral connections are disconnected, those that hibernate are
// saved and stay. If the save fails, what could not be saved is still in memory, and
// Close may be called again; only if the actor is fenced, poisoned or closed is it lost.
// A second Close after success returns nil.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	ephemeral := s.sorted(func(c *Conn) bool { return c.ephemeral })
	for _, c := range ephemeral {
		s.leave(c)
	}
	s.mu.Unlock()
	s.part(ctx, ephemeral)

	// A save that is under way gets as long as this one.
	stop := context.AfterFunc(ctx, s.cancel)
	s.clock.Close()
	stop()
	err := s.save(ctx, nil)
	if err != nil && !s.ended(err) {
		return err
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.free()
	return err
}
