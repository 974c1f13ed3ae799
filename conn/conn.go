// Package conn keeps the connections of an actor: which clients are connected, which
// events each has subscribed to, and what the actor has noted about it.
//
// A hibernating connection outlives the actor's stay in memory: its client stays
// connected to a gateway, the actor sleeps, and when it wakes its Set is as it was. Such
// a connection is one record under a key of its own. An ephemeral one lives as long as
// its transport, and never touches the store.
//
//	set, err := conn.Open(ctx, actor, nil)         // everything that was stored is back
//	c, ok := set.Find(gateway, request)            // the client's gateway is back
//	var b batch.Batch
//	c, err := set.In(&b).Create(conn.Info{…})      // or SetState, Subscribe, Disconnect
//	err = actor.Commit(ctx, &b)                    // now it is there
//
// Connections change with the batch that changes them: in memory and in the store when it
// lands, in neither if it doesn't. The records are put together under the actor's commit
// lock, when the batch is about to land: so a batch that was staged before a connection
// went away doesn't bring its record back, and each record in the store is the newest.
//
// Two batches may change one connection at the same time. Neither is refused: the one that
// lands later replaces what it has set itself, and leaves the rest as the other one made
// it. A batch that changes a connection that went meanwhile is refused as a whole.
//
// # What it is not
//
// No network: a transport is whatever the caller attaches. The messages of a connection
// are the caller's as well.
package conn

// Files, from the top down:
//
//	tx.go state.go stray.go conn.go connection.go stored.go record.go errors.go keys.go id.go
//	metrics.go

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/greenroomdb/greenroom/internal/drain"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/metrics"
	"github.com/greenroomdb/greenroom/part"
)

// Options change what a Set does. The zero value is fine.
type Options struct {

	// Env is what the parts of an actor share.
	part.Env
}

// orDefault returns the options with a value in every field.
func (o *Options) orDefault() Options {
	var full Options
	if o != nil {
		full = *o
	}
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
// connections. It is the only one that writes their records: what is in memory is what the
// store has, so no method but Discard and DiscardStray reads the store.
//
// When the actor refuses everything, because it is fenced or poisoned, the Set refuses
// changes, and what it shows may not be what is stored. Open the actor again then, and a new
// Set, which reads what has landed.
type Set struct {
	actor  *actorstore.Actor
	opts   Options
	meter  metrics.Meter
	limit  int    // bytes of a record
	unkeep func() // lets another Set keep the namespace
	end    sync.Once

	mu          sync.Mutex
	conns       map[ID]*Conn        // +checklocks:mu
	requests    map[request][]*Conn // more than one only if stored so  +checklocks:mu
	events      map[string][]*Conn  // its subscribers, the first one first  +checklocks:mu
	quarantined []Quarantined       // +checklocks:mu

	// gate has those commits inside that change a connection, and calls of Discard.
	gate drain.Gate
	// torn are the connections whose records may not be as memory has them, because only a
	// part of an Ordered batch has landed.
	torn batch.Dirty[ID]
}

// Open returns the Set of an actor's connections, with all that are stored, none of
// them with a transport. It writes nothing. A record that can't be read, or whose rows are
// damaged, is logged and quarantined: it stays where it is, its connection isn't there, and
// everything else works. A nil opts is the zero Options.
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
		actor: actor, opts: opts.orDefault(), unkeep: free,
		limit:    min(l.ValueSize, l.Payload-batch.WrapperBytes-len(key(newID()))),
		conns:    map[ID]*Conn{},
		requests: map[request][]*Conn{},
		events:   map[string][]*Conn{},
	}
	s.meter.To = s.opts.Metrics
	if err := s.restore(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// restore reads all that is stored.
func (s *Set) restore(ctx context.Context) error {
	s.mu.Lock() // no other goroutine has s yet, but the methods below ask for the lock
	defer s.mu.Unlock()
	for e, err := range List(ctx, s.actor) {
		if err != nil {
			return err
		}
		if e.Err != nil {
			s.opts.Logger.Error("a stored connection can't be read and is left alone",
				"actor_id", s.actor.ID().String(), "connection", string(e.ID), "error", e.Err)
			s.quarantined = append(s.quarantined, Quarantined{e.ID, e.Size, e.Err, e.Damaged, e.Stray})
			s.meter.Count(metricQuarantined, 1)
			continue
		}
		c := &Conn{set: s, rec: *e.Record, prior: batch.Stored(e.Size)}
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
	s.meter.Count(metricDisconnected, 1)
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

// unusedID returns an id under which nothing is stored.
//
// +checklocks:s.mu
func (s *Set) unusedID() ID {
	for {
		id := newID()
		_, there := s.findQuarantinedLocked(id)
		if s.conns[id] == nil && !there {
			return id
		}
	}
}

// free returns ErrExists if a connection that is to be made would be the second one that a
// gateway knows under its ids.
//
// +checklocks:s.mu
func (s *Set) free(c *Conn) error {
	if other := s.requests[c.request()]; len(other) > 0 && !c.ephemeral {
		return exists(other[0])
	}
	return nil
}

// install makes a change in memory, once it has landed. The lists of subscribers change by
// what is new and what is gone, so that the others keep their order.
//
// +checklocks:s.mu
func (s *Set) install(ch *change) {
	c := ch.c
	if !ch.created {
		for _, event := range c.rec.Subscriptions {
			if !slices.Contains(ch.rec.Subscriptions, event) {
				without(s.events, event, c)
			}
		}
		for _, event := range ch.rec.Subscriptions {
			if !slices.Contains(c.rec.Subscriptions, event) {
				s.events[event] = append(s.events[event], c)
			}
		}
	}
	// The rest never changes, and is read without the lock.
	c.rec.State, c.rec.Subscriptions = ch.rec.State, ch.rec.Subscriptions
	if ch.created {
		s.enter(c)
		s.meter.Count(metricCreated, 1)
	}
	switch {
	case ch.leave:
		c.prior = batch.Absent
		s.leave(c)
	case !c.ephemeral:
		c.prior = batch.Stored(ch.rec.Size())
		s.meter.Count(metricSaved, 1)
	}
}

// check says why nothing may be changed any more.
func (s *Set) check() error {
	if s.gate.Closed() {
		return ErrClosed
	}
	return s.actor.Err()
}

// In returns what b does to the connections: the same Tx each time. What is staged
// while b is being sealed lands too.
func (s *Set) In(b *batch.Batch) *Tx {
	return (*Tx)(batch.In(b, s, func() *participant { return &participant{s: s, b: b} }))
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
	list := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		list = append(list, c)
	}
	slices.SortFunc(list, byID)
	return list
}

// byID is the order of ids, which is that of the stored records. Nothing follows from it but
// that two calls without a change between them return the same list: ids of connections that
// were made one after the other are random.
func byID(a, b *Conn) int { return cmp.Compare(a.rec.ID, b.rec.ID) }

// Subscribers appends to dst the connections that have subscribed to event, in the order
// in which they did.
func (s *Set) Subscribers(dst []*Conn, event string) []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(dst, s.events[event]...)
}

// Close ends the Set, and waits for the commits of it that are under way. It asks the
// engine nothing. Ephemeral connections are gone then; those that hibernate are stored, and
// stay. What is staged and not being committed fails with ErrClosed.
//
// After an error, which is the context's, the Set is as it was, and Close can be called
// again. A second Close returns nil. Participants of a batch must not call it.
func (s *Set) Close(ctx context.Context) error {
	if err := s.gate.Close(ctx); err != nil {
		return err
	}
	s.end.Do(s.shut)
	return nil
}

// shut ends the ephemeral connections, and lets another Set be opened.
func (s *Set) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.ephemeral {
			s.leave(c)
		}
	}
	s.unkeep()
}
