package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// NewJointAction declares an action whose turn is one of several actors: the one that is called, and those that the function needs returns, from
// the called address and the arguments, before any turn is taken. Then the turns of all are taken, as Together does, and
// fn runs in them: c is the Context of the actor that is called, and others are those of the actors that needs has returned, in its order. All that they write lands by one
// commit, or nothing. An error of needs is that of the call. See NewAction.
//
// The others must be awake at the host of the called actor, or sleep. A call of such an action in a turn is greenroom.ErrNested.
func NewJointAction[In, Out any](name string, needs func(called Address, in In) ([]Address, error), fn func(c *Context, others []*Context, in In) (Out, error)) *Action[In, Out] {
	a := NewAction(name, func(c *Context, in In) (out Out, err error) {
		if c.turn.participant == nil { // of a version of the type that knows no others
			return out, fmt.Errorf("%w: %s has become an action of several actors; try again", ErrNotAwake, name)
		}
		return fn(c, c.others, in)
	})
	if fn == nil || needs == nil {
		a.action.Run = nil // for which the type is refused
	}
	// The arguments are decoded by an action of their own, which runs in no turn.
	a.action.others = func(called Address, args Raw) (others []Address, err error) {
		decode := abi.NewCommand[Raw](name, func(_ *Context, in In) error {
			others, err = needs(called, in)
			return err
		}, refusal[In](name))
		_, err = decode.Run(nil, args)
		return others, err
	}
	return a
}

// A coordinator takes the turns of several actors.
type coordinator struct {
	*joint
	members []*member // the leader first
}

// A member is one of the actors, with its turn.
type member struct {
	*participant
	host  *Host
	addr  Address
	birth *birth
	turn  *turn
	inner *life    // whose own part asks for the turn, nil if a user does
	life  *life    // that was woken, and has the member as a user until the turn is posted
	ctx   *Context // of the turn; written before taken is closed
}

// coordinate returns a coordinator of the actor, which leads, and others: the function of its turn runs when all turns are taken.
func (m *member) coordinate(others []Address) (*coordinator, error) {
	g := &coordinator{members: []*member{m}}
	fn := m.turn.run
	m.turn.run = func(c *Context) error { return g.lead(c, fn) }
	names := []string{m.addr.String()}
	for _, a := range others {
		names = append(names, a.String())
		o := &member{host: m.host, addr: a, birth: &birth{}}
		o.turn = newTurn(spanTogether, o.follow)
		o.turn.turnOrigin = turnOrigin{from: m.turn.from, trace: m.turn.trace, above: m.turn.above}
		g.members = append(g.members, o)
	}
	if sorted := slices.Sorted(slices.Values(names)); len(names) > MaxTogether || len(slices.Compact(sorted)) < len(names) {
		return nil, errTogether
	}
	g.joint = newJoint(names)
	for i, m := range g.members {
		m.participant = g.participants[i]
		m.turn.participant = m.participant
	}
	return g, nil
}

// joins returns the coordinator of an action of several actors, nil for any other action.
func (m *member) joins(k *kind, action string, args Raw) (*coordinator, error) {
	a := k.actions[action]
	if a == nil || a.others == nil {
		return nil, nil
	}
	var others []Address
	err := guard(func() (err error) {
		others, err = a.others(m.addr, args)
		return err
	})
	if p := (*panicError)(nil); errors.As(err, &p) {
		m.host.log.Error("host: panic", slog.String("actor", m.addr.String()), slog.String("addresses of", action), slog.Any("panic", p.value), slog.String("stack", string(p.stack)))
	}
	if err != nil {
		return nil, ran(err)
	}
	return m.coordinate(others)
}

// run takes the turns, and returns when all have landed durably, or none.
func (g *coordinator) run(ctx context.Context) error {
	if waiter(ctx) != nil {
		return fmt.Errorf("host: a turn of several actors within a turn: %w", greenroom.ErrNested)
	}
	g.refused = g.take(ctx)
	close(g.all)
	err := g.refused
	if err == nil {
		for _, m := range g.members {
			err = cmp.Or(err, m.turn.wait(ctx))
		}
	}
	return err
}

// take wakes the actors, and takes their turns in the order of their ids, as greenroom.Update takes actors.
func (g *coordinator) take(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(max(g.members[0].host.opts.TurnTimeout, 0), defaultTurnTimeout)/2)
	defer cancel()
	order := slices.SortedFunc(slices.Values(g.members), func(a, b *member) int {
		return actorstore.IDFromName(a.addr.String()).Compare(actorstore.IDFromName(b.addr.String()))
	})
	defer func() {
		for _, m := range order {
			m.vacate()
		}
	}()
	m, err := each(ctx, order, (*member).wakeAtOnce)
	if err == errNoRoom {
		m, err = g.wakeInTurn(ctx, order, m)
	}
	if err == nil {
		m, err = each(ctx, order, (*member).take)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("host: %s, for a turn of %d actors: %w", m.addr, len(order), err)
	if m.follows() {
		err = ran(err) // it isn't about the actor that was called
	}
	return err
}

// each does step for the members, and returns the one whose step has failed.
func each(ctx context.Context, order []*member, step func(*member, context.Context) error) (*member, error) {
	for _, m := range order {
		if err := step(m, ctx); err != nil {
			return m, err
		}
	}
	return nil, nil
}

// wakeInTurn wakes all actors when there was no room for m. One coordinator at a time waits for room while actors are awake for it: two could wait for each other.
func (g *coordinator) wakeInTurn(ctx context.Context, order []*member, m *member) (*member, error) {
	for _, m := range order {
		m.vacate()
	}
	h := m.host
	select {
	case h.crowded <- struct{}{}:
		defer func() { <-h.crowded }()
		return each(ctx, order, (*member).wake)
	case <-ctx.Done():
		return m, ctx.Err()
	}
}

// lead is the turn of the leader.
func (g *coordinator) lead(c *Context, fn func(c *Context) error) error {
	if err := g.members[0].begin(); err != nil {
		return err
	}
	for _, m := range g.members[1:] {
		m.ctx.open.Adopt()
		m.ctx.turn.from = c.Caller() // that of the connection, if the call comes through one
		c.others = append(c.others, m.ctx)
	}
	g.failed = ErrPanic // for the others, unless fn returns
	defer close(g.ran)
	err := fn(c)
	if err == nil {
		g.commit.Join(c.open.Batch())
	} else {
		for _, o := range c.others {
			err = o.refusal(err)
		}
	}
	g.failed = err
	return err
}

// follow is the turn of another one.
func (m *member) follow(c *Context) error {
	m.ctx = c
	if err := m.begin(); err != nil {
		return err
	}
	j := m.joint
	if <-j.ran; j.failed != nil {
		return j.failed
	}
	j.commit.Join(c.open.Batch())
	select {
	case <-m.land:
		return nil
	case <-j.over:
		return j.outcome
	}
}

// wake has the actor awake, until vacate.
func (m *member) wake(ctx context.Context) error { return m.wakeBy(ctx, byUser) }

// wakeAtOnce is wake without waiting for room: errNoRoom.
func (m *member) wakeAtOnce(ctx context.Context) error { return m.wakeBy(ctx, byCoordinator) }

func (m *member) wakeBy(ctx context.Context, by caller) (err error) {
	switch {
	case m.life != nil:
	case m.inner == nil:
		m.life, err = m.host.enter(ctx, m.addr, m.birth, by)
	case m.inner.enterAwake():
		m.life = m.inner
	} // else it goes to sleep, and runs the turns of its own parts still
	return err
}

// vacate ends what wake has begun, if no turn was posted.
func (m *member) vacate() {
	if m.life != nil {
		m.life.leave()
		m.life = nil
	}
}

// take returns when the actor's turn has begun.
func (m *member) take(ctx context.Context) error {
	for {
		err := m.wake(ctx)
		if err == nil {
			err = m.post(ctx)
		}
		if err == nil {
			err = m.begun(ctx)
		}
		if err != errAgain || m.inner != nil {
			return err
		}
		if p := m.turn.place; p != nil {
			p.leave() // those behind it needn't wait for it
		}
		m.turn = m.turn.again()
	}
}

// post posts the turn, which is a user of the actor then.
func (m *member) post(ctx context.Context) (err error) {
	t := m.turn
	t.life, t.patient = m.life, m.inner == nil
	if m.inner == nil {
		err = m.life.post(ctx, t)
	} else {
		select {
		case m.inner.inner <- t:
		case <-m.inner.over:
			err = ErrNotAwake
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		m.life = nil
	}
	return err
}

// begun returns when the turn has begun; an error says that it never will.
func (m *member) begun(ctx context.Context) error {
	select {
	case <-m.taken:
		return nil
	case err := <-m.turn.done:
		return err
	case <-ctx.Done():
		if m.turn.took.CompareAndSwap(false, true) {
			return ctx.Err()
		}
	}
	select { // it is just beginning
	case <-m.taken:
		return nil
	case err := <-m.turn.done:
		return err
	}
}
