package host

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
)

// An output is what a turn has to say, and may not before what it is based on is durable.
type output struct {
	turn    *turn
	err     error
	send    []func() // what leaves besides the reply, if the turn landed
	seq     uint64   // the actor's newest commit when the turn was over
	destroy bool     // the reply waits until the actor is removed
}

// elsewhere says that another gate waits for stable storage for what has landed.
func (o *output) elsewhere() bool { return o.err == nil && o.turn.participant.follows() }

// A gate lets the outputs of an actor's turns out in their order. What waits for stable
// storage waits together: while one wait is under way the next turns go on, and the next
// wait is for all of them.
//
// A turn that has written nothing waits as well, for what it may have read. Of a turn of several actors
// the gate of its leader waits for stable storage, also if the leader has only read, and those of the others wait for that when its turn has come. So none waits for itself: the turns of
// each gate are in the order of the engine's commits. What a turn of several that writes nothing has read is durable since its commit.
type gate struct {
	life *life

	mu      sync.Mutex
	queue   []output      // +checklocks:mu
	running bool          // a goroutine lets outputs out  +checklocks:mu
	idle    chan struct{} // closed when running ends; nil without a waiter  +checklocks:mu
	parting []*turn       // whose replies wait until the actor is removed  +checklocks:mu

	synced uint64 // what is known to be durable; of the goroutine that runs
}

// push adds the output of a turn. Only the actor's goroutine calls it.
func (g *gate) push(o output) {
	g.mu.Lock()
	if g.running {
		g.queue = append(g.queue, o)
		g.mu.Unlock()
		return
	}
	if o.seq <= g.synced && o.turn.participant == nil { // nothing to wait for, and nothing waits before it
		g.mu.Unlock()
		g.let(&o, nil)
		return
	}
	g.queue = append(g.queue, o)
	g.running = true
	g.mu.Unlock()
	go g.run()
}

// run lets outputs out until there are none.
func (g *gate) run() {
	var batch []output
	for {
		g.mu.Lock()
		clear(batch)
		batch, g.queue = g.queue, batch[:0]
		if len(batch) == 0 {
			g.running = false
			if g.idle != nil {
				close(g.idle)
				g.idle = nil
			}
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		err := g.sync(batch)
		for i := range batch {
			g.let(&batch[i], err)
		}
	}
}

// sync makes the outputs durable, but for those that wait for another gate.
func (g *gate) sync(batch []output) error {
	seq := uint64(0)
	for i := range batch {
		if o := &batch[i]; !o.elsewhere() {
			seq = max(seq, o.seq)
		}
	}
	if seq <= g.synced {
		return nil
	}
	newest := g.life.actor.Seq()
	if err := g.store(); err != nil {
		return err
	}
	g.synced = newest
	return nil
}

// store returns when what the actor's turns have written so far is on stable storage. Gates of other actors may call it.
func (g *gate) store() error {
	l := g.life
	l.host.meter.Count(metricSyncs, 1)
	if err := l.actor.Sync(l.steady); err != nil {
		l.log.Error("host: wait for stable storage", slog.Any("error", err))
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return nil
}

// let lets one output out. lost is why what it is based on may not be durable.
func (g *gate) let(o *output, lost error) {
	if o.elsewhere() {
		lost = o.turn.participant.joint.durable()
	} else if p := o.turn.participant; p != nil && p.leads {
		if store := p.joint.store; store != nil && cmp.Or(o.err, lost) == nil {
			lost = store()
		}
		p.joint.sync(cmp.Or(o.err, lost))
	}
	if lost != nil && o.err == nil {
		o.err = lost
	}
	if o.err == nil {
		for _, send := range o.send {
			g.life.report("send", guard(func() error { send(); return nil }))
		}
	}
	if o.destroy && o.err == nil && o.turn.patient {
		g.mu.Lock()
		g.parting = append(g.parting, o.turn)
		g.mu.Unlock()
		if l := o.turn.life; l != nil { // else the actor would wait for itself
			o.turn.life = nil
			l.leave()
		}
		return
	}
	o.turn.finish(o.err)
}

// wait returns when nothing waits any more.
func (g *gate) wait() {
	g.mu.Lock()
	if !g.running {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}

// destroyed answers the callers that asked for the actor's end.
func (g *gate) destroyed(err error) {
	g.mu.Lock()
	parting := g.parting
	g.parting = nil
	g.mu.Unlock()
	for _, t := range parting {
		t.finish(err)
	}
}
