package host

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// A course is the way of an actor through its stay in memory, from stage to stage. It is of main.
type course struct {
	*life
	next  stage
	born  time.Time      // when it began
	parts []func() error // that are to be opened still
	first *turn          // of a hook, which is being run
	quiet chan struct{}  // closed when quiesce has returned; nil before it is called
}

// begin makes a life's course stand at its beginning.
func (c *course) begin(of *life) {
	c.life, c.next, c.born = of, c.wake, time.Now()
	c.parts = []func() error{
		c.takeOver, c.openTraces, c.conns.open, c.openQueue, c.out.open, c.openWorkflow, c.openVars, c.creation.end, schema{of}.bringUp, c.firstWake,
	}
}

// A stage is a part of an actor's stay in memory. It returns the next one, nil at the end. A stage whose turn ends the goroutine
// (runtime.Goexit, as testing.T's FailNow does) begins again on another one, so what it does before a turn does no harm twice.
type stage func() stage

// main is the actor's goroutine.
func (c *course) main() {
	leave := runners.enter(c.life)
	defer func() {
		leave()
		if c.next != nil {
			go c.main()
		}
	}()
	for c.next != nil {
		c.next = c.next()
	}
}

// wake opens everything of the actor, and runs its first turns.
func (c *course) wake() stage {
	err := c.open()
	if err == nil && c.destroy { // in Create or Wake
		err = ErrNoActor
	}
	if err != nil {
		c.dontWake(err)
		return nil
	}
	c.host.meter.Observe(metricWakeTime, time.Since(c.born))
	c.host.meter.Count(metricWoken, 1)
	h := c.host
	h.mu.Lock()
	c.phase, c.began = awake, h.clock()
	c.users++ // itself, until it is started
	h.mu.Unlock()
	close(c.woken)
	c.start()
	c.leave()
	return c.serve
}

// serve runs turns until the actor is to sleep.
func (c *course) serve() stage {
	for lost := false; !lost && c.actor.Err() == nil && !c.destroy; {
		select {
		case t := <-c.mailbox:
			c.exec(t)
		case t := <-c.inner:
			c.exec(t)
		case <-c.actor.Done(): // also when it was closed, which is not an error
			lost = true
		case <-c.sleep:
			c.turnAway()
			return c.disconnect
		}
	}
	c.loseIt()
	return nil
}

// disconnect ends the connections that don't outlive the stay, when the host is being closed.
func (c *course) disconnect() stage {
	if c.first != nil || len(c.conns.ephemeral()) > 0 {
		c.report("disconnect", c.runFirst(spanOnDisconnect, c.conns.disconnectEphemeral))
	}
	if c.kind.Sleep == nil {
		return c.quieten
	}
	return c.sayGoodNight
}

// sayGoodNight runs Type.Sleep.
func (c *course) sayGoodNight() stage {
	c.report("sleep", c.runFirst(spanOnSleep, c.kind.Sleep))
	if c.host.closing() {
		return c.quieten
	}
	return c.awaitArrival
}

// quieten closes the parts, and meanwhile runs the turns that these ask for: they wait for them.
func (c *course) quieten() stage {
	if c.quiet == nil {
		c.cancel()
		c.quiet = make(chan struct{})
		go func() {
			defer close(c.quiet)
			c.sources.Wait()
			c.quiesce()
		}()
	}
	for {
		select {
		case t := <-c.inner:
			c.exec(t)
		case <-c.quiet:
			return c.fallAsleep
		}
	}
}

// fallAsleep closes what is left of an actor that is to sleep.
func (c *course) fallAsleep() stage {
	close(c.over)
	c.gate.wait()
	if c.destroy || c.actor.Err() != nil {
		c.close()
		return nil
	}
	r := remnant{life: c.life}
	r.note()
	c.used.Tell()
	c.shut(false)
	c.host.meter.Count(metricSlept, 1)
	c.host.forget(&c.stay)
	c.conns.missed()
	close(c.left)
	return nil
}

// close is the end of an actor that was lost, or is to be destroyed.
func (c *course) close() {
	err := c.actor.Err()
	if c.destroy && err == nil {
		_ = c.remove() // it has told
	} else {
		c.host.meter.Count(metricLost, 1)
		if err != nil {
			c.log.Error("host: actor was lost", slog.Any("error", err))
		}
		c.used.Tell()
		c.shut(true)
	}
	c.host.forget(&c.stay)
	c.conns.missed()
	close(c.left)
}

// loseIt is for an actor that is not the host's any more, whose store has failed, or that
// is to be destroyed: turns that wait are for the actor as it is next.
func (c *course) loseIt() {
	h := c.host
	h.mu.Lock()
	if c.phase == awake {
		c.depart()
	}
	h.mu.Unlock()
	c.cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.sources.Wait()
		c.quiesce()
	}()
	c.refuse(stopped)
	close(c.over)
	c.gate.wait()
	c.close()
}

// dontWake is the end of an actor that could not be woken, or doesn't want to be.
func (c *course) dontWake(err error) {
	c.failure = err
	c.cancel()
	close(c.over)
	c.sources.Wait()
	switch {
	case c.destroy && c.actor.Err() == nil:
		c.quiesce()
		c.gate.wait()
		if err := c.remove(); err != nil {
			c.failure = err
		}
	case c.creation.undo():
		c.stillborn = true
		c.shut(true)
	default:
		c.shut(true)
	}
	c.host.forget(&c.stay)
	close(c.woken)
	close(c.left)
}

// remove drops the actor, or restores it, and tells those that asked for it.
func (c *course) remove() error {
	if c.restore != nil {
		return c.turnBack()
	}
	if c.workflow != nil {
		c.workflow.held.release(false)
	}
	err := c.door.Drop(context.WithoutCancel(c.ctx))
	if err != nil {
		err = fmt.Errorf("host: destroy %s: %w", c.name, err)
		c.log.Error("host: destroy", slog.Any("error", err))
	} else {
		c.host.alarms.Forget(c.name)
		c.host.away.drop(c.name, "the actor is gone")
		c.host.meter.Count(metricDestroyed, 1)
	}
	c.gate.destroyed(err)
	c.shut(false)
	return err
}

// turnBack is the end of an actor that is restored, and tells those that asked for it. If it can't be restored it sleeps as it is.
func (c *course) turnBack() error {
	r := remnant{life: c.life}
	r.note()
	c.host.alarms.Forget(c.name) // what is due then it hears when the actor is closed
	err := c.restore()
	if err == nil {
		c.host.away.drop(c.name, restoredReason)
	}
	c.gate.destroyed(err)
	c.used.Tell()
	c.shut(false)
	return err
}

// open takes the actor over, opens everything of it that may want to be woken, and runs
// its first turns. When it fails, dontWake shuts what is open by then. Called again after a turn that ended its goroutine it
// goes on with that turn's part.
func (c *course) open() error {
	for ; len(c.parts) > 0; c.parts = c.parts[1:] {
		if err := c.parts[0](); err != nil {
			return err
		}
	}
	c.parts = nil
	return nil
}

// takeOver takes the actor over.
func (c *course) takeOver() error {
	if err := c.creation.take(); err != nil {
		return err
	}
	c.host.alarms.Forget(c.name)
	c.had, c.seq, c.woke = c.actor.Wake(), c.actor.Seq(), c.host.clock()
	c.used.Begin(c.actor, c.host.clock, c.kind.metrics.toldBy(c.host.meter))
	return c.creation.begin()
}

// firstWake runs Type.Wake.
func (c *course) firstWake() error {
	if c.kind.Wake == nil || c.destroy {
		return nil
	}
	return c.runFirst(spanOnWake, c.kind.Wake)
}

// runFirst runs a turn of an actor that takes none of others yet, or no more. If the turn ended the goroutine, the next call returns
// its error.
func (c *course) runFirst(name string, fn func(*Context) error) error {
	t := c.first
	if t == nil {
		t = newTurn(name, fn)
		c.first = t
		c.exec(t)
	}
	c.first = nil
	return <-t.done
}

// awaitArrival waits a moment for what the actor has sent when it was about to sleep: what
// comes after that wakes it again, to sleep and to send once more.
func (c *course) awaitArrival() stage {
	over := time.After(arrivalTime)
	for !c.out.empty() && c.actor.Err() == nil {
		select {
		case t := <-c.inner:
			c.exec(t)
		case <-over:
			return c.quieten
		case <-c.actor.Done():
		}
	}
	return c.quieten
}
