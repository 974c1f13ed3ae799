package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A runnerConn is the connection of a runner.
type runnerConn struct {
	outbox
	e       *core
	version rp.Version
	r       *runner   // nil until it has introduced itself; guarded by core.mu
	number  uint64    // counts connections whose runners have introduced themselves; guarded by core.mu
	heard   time.Time // guarded by core.mu
	pinged  time.Time // when the first ping was written since; zero for none. Guarded by core.mu
	// asked and answered are the numbers of the last ping, and of the last one that was answered. They are guarded by core.mu.
	asked, answered int64
	// resuming says that the runner has come back, and hasn't said yet all that it had to say. It is guarded by core.mu.
	resuming bool
}

// send sends a message, which is encoded later: senders hold core.mu. The message must not change any more.
func (c *runnerConn) send(m rp.ToRunner) { c.sendThen(m, nil) }

// sendThen is send, and calls done, unless it is nil, when the message is written, or won't be.
func (c *runnerConn) sendThen(m rp.ToRunner, done func()) {
	c.outbox.send(message{
		kind: websocket.MessageBinary, size: weight(m), done: done,
		encode: func() ([]byte, error) { return rp.RunnerBound.Append(nil, c.version, m) },
	})
}

// weight returns how many bytes of a message are of no fixed size, but for small ones.
func weight(m rp.ToRunner) int {
	n := 0
	switch m := m.(type) {
	case rp.ToActor:
		return weightOfBody(m.Body)
	case rp.Reply[rp.Pages]:
		for _, p := range m.Result.Pages {
			n += len(p.Data)
		}
	case rp.Reply[rp.Table]:
		n = sizeOfTable(&m.Result)
	case rp.Reply[rp.Result]:
		n = sizeOfTable(&m.Result.Table)
	case rp.Reply[rp.Results]:
		for i := range m.Result {
			n += sizeOfTable(&m.Result[i].Table)
		}
	case rp.Commands:
		for _, c := range m {
			if s, ok := c.Body.(rp.StartActor); ok {
				n += len(s.Key.Value) + len(s.Input) + 8*len(s.Hibernating)
			}
		}
	case rp.KVResponse:
		switch b := m.Body.(type) {
		case rp.KVGot:
			n = weightOfEntries(b.Entries)
		case rp.KVListed:
			n = weightOfEntries(b.Entries)
		}
	}
	return n
}

func weightOfBody(b rp.ToActorBody) int {
	switch b := b.(type) {
	case rp.RequestStart:
		return len(b.Path) + weightOfHeaders(b.Headers) + len(b.Body)
	case rp.SocketOpen:
		return len(b.Path) + weightOfHeaders(b.Headers)
	case rp.SocketMessage:
		return len(b.Data)
	}
	return 0
}

func weightOfHeaders(list []rp.Header) int {
	n := 0
	for _, h := range list {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

func weightOfEntries(list []rp.KVEntry) int {
	n := 0
	for _, e := range list {
		n += len(e.Key) + len(e.Value) + 12
	}
	return n
}

// A runnerError is why a runner is cut off.
type runnerError struct {
	reason string
	err    error
}

func (e *runnerError) Error() string { return e.reason + ": " + e.err.Error() }
func (e *runnerError) Unwrap() error { return e.err }

// serve takes what the runner says until its connection ends.
func (c *runnerConn) serve(ctx context.Context, at runnerKey) {
	var err error
	if c.isEnvoy() {
		err = c.take(rp.RunnerInit{Name: at.name}, at, 0) // its address says the rest
	}
	if err == nil {
		err = c.read(ctx, at)
	}
	if refused := (*runnerError)(nil); errors.As(err, &refused) {
		c.e.log.Warn("engine: a runner is cut off", slog.String("runner", at.key), slog.Any("error", err))
		c.close(websocket.StatusPolicyViolation, refused.reason)
	} else {
		_ = c.ws.CloseNow() // it has ended
	}
	c.ended(err)
}

// read takes what the runner says, and returns why it ends.
func (c *runnerConn) read(ctx context.Context, at runnerKey) error {
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if c.r == nil {
			wait, cancel = context.WithTimeout(ctx, initTimeout)
		}
		kind, b, err := c.ws.Read(wait)
		cancel()
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary {
			return &runnerError{"ws.invalid_message", errors.New("a text message")}
		}
		m, err := rp.EngineBound.Decode(c.version, b)
		if err != nil {
			return &runnerError{"ws.invalid_message", err}
		}
		if err := c.take(m, at, len(b)); err != nil {
			return err
		}
	}
}

// take takes one message.
func (c *runnerConn) take(m rp.ToEngine, at runnerKey, size int) error {
	e := c.e
	init, first := m.(rp.RunnerInit)
	if first && c.isEnvoy() {
		first = size == 0 // what an envoy sends says no more than its types
	}
	if first {
		if at.name = init.Name; at.name == "" {
			return &runnerError{"ws.invalid_message", errors.New("an Init without a name")}
		}
		e.mu.Lock()
		e.inits++
		c.number = e.inits
		e.mu.Unlock()
		if err := (takeover{e}).await(e.ctx, at); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.heard, c.pinged = e.now(), time.Time{}
	if first {
		if c.r != nil {
			return &runnerError{"ws.invalid_message", errors.New("a second Init")}
		}
		if r := e.runners[at]; r != nil && r.conn != nil && r.conn.number > c.number {
			return &runnerError{"ws.eviction", errors.New("it has connected anew since")}
		}
		c.enter(at, init)
		return nil
	}
	if c.r == nil {
		return &runnerError{"ws.invalid_message", errors.New("a message before Init")}
	}
	if c.r.conn != c {
		return nil // another connection has its place
	}
	switch m := m.(type) {
	case rp.RunnerInit:
		c.learn(m)
	case rp.Events:
		c.r.events(m)
	case rp.Pong:
		if c.answered = m.At; c.resuming {
			c.r.resume()
		}
	case rp.Stopping:
		c.r.stop()
	case rp.KVRequest:
		asked(e, c.r, m, size)
	case rp.FromActor:
		c.r.fromActor(m)
	case rp.GetPages, rp.Commit, rp.BeginStage, rp.StageSegment, rp.FinishStage, rp.Exec, rp.Execute, rp.ExecuteBatch:
		databaseCall{c.r, m, size}.run()
	}
	return nil
}

// maxEnvoyResponse is how large a response of an envoy may be, in bytes.
const maxEnvoyResponse = 20 << 20

// isEnvoy says whether the runner is of RivetKit 2.3.
func (c *runnerConn) isEnvoy() bool { return c.version >= rp.Envoy6 }

// learn learns what types of actors the runner has.
//
// +checklocks:c.e.mu
func (c *runnerConn) learn(m rp.RunnerInit) {
	c.r.types = nil
	for _, n := range m.ActorNames {
		c.r.types = append(c.r.types, n.Name)
	}
}

// enter makes c the connection of its runner.
//
// +checklocks:c.e.mu
func (c *runnerConn) enter(at runnerKey, init rp.RunnerInit) {
	e := c.e
	r := e.runners[at]
	fresh := r == nil || r.over
	if fresh {
		r = takeover{e}.add(at, actorstore.NewID().String())
		r.since = e.now()
		_, r.again = e.lost[at]
		delete(e.lost, at)
	}
	if r.conn != nil {
		r.conn.close(websocket.StatusNormalClosure, "ws.eviction")
		r.disconnect()
	}
	if r.lost != nil {
		r.lost.Stop()
	}
	c.r, r.conn, r.stopping, r.came, r.broken = r, c, false, true, false
	r.envoy = c.isEnvoy()
	c.learn(init)
	hello := rp.EngineInit{LostThreshold: e.opts.LostThreshold.Milliseconds(), StopThreshold: e.opts.StopThreshold.Milliseconds()}
	if r.envoy {
		hello.MaxResponse = maxEnvoyResponse
	} else {
		hello.RunnerID = r.id
	}
	c.send(hello)
	r.hasten(fresh)
	if fresh {
		r.join()
		return
	}
	c.resuming = true
	c.ask(nil)
}

// ask sends a ping, and calls written, unless it is nil, when it is written. What the runner was sent before comes to it before the ping.
//
// +checklocks:c.e.mu
func (c *runnerConn) ask(written func()) {
	c.asked = max(c.e.now().UnixMilli(), c.asked+1) // no two have one number
	c.sendThen(rp.Ping{At: c.asked}, written)
}

// ended follows the end of a connection, and why it has ended.
func (c *runnerConn) ended(err error) {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	r := c.r
	if r == nil || r.conn != c {
		return
	}
	r.disconnect()
	after := e.opts.LostThreshold
	r.broken = brokeOff(err) || brokeOff(c.failure()) // what ends first is a read or a write
	switch p := e.pools[r.pool()]; {
	case r.stopping:
		after = 200 * time.Millisecond
	case r.broken && p != nil && len(p.runners) > 0:
		after = min(after, e.opts.BrokenThreshold)
	}
	r.lose(after)
}

// brokeOff reports whether an error says that the other end of a connection is gone without a word.
func brokeOff(err error) bool {
	for _, gone := range []error{io.EOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}

// ping asks the runner whether it is there, and cuts it off if it doesn't answer for long. What waits to be written before the
// question is bounded by the time of a write.
func (c *runnerConn) ping(ctx context.Context) {
	tick := time.NewTicker(c.e.opts.PingInterval)
	defer tick.Stop()
	asked := func() {
		c.e.mu.Lock()
		defer c.e.mu.Unlock()
		if c.pinged.IsZero() {
			c.pinged = c.e.now()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.e.mu.Lock()
		at, now := c.pinged, c.e.now()
		silent := !at.IsZero() && now.Sub(at) > max(5*c.e.opts.PingInterval, c.e.opts.LostThreshold)
		if !silent {
			c.ask(asked)
		}
		c.e.mu.Unlock()
		if silent {
			_ = c.ws.CloseNow() // the reader hears of it
			return
		}
	}
}
