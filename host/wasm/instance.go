package wasm

import (
	"container/list"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/vfs"
)

// An instance is what an awake actor has of its module: host.Context.Vars. But for place
// it belongs to the turn that runs.
type instance struct {
	module *Module
	guest  api.Module    // nil until it is needed, and when it was thrown away
	place  *list.Element // in crowd.idle  +checklocks:module.crowd.mu
	stale  atomic.Bool   // its memory knows of a turn that hasn't landed

	turn  weak.Pointer[host.Context] // of the turn that the next fields are about
	spent int                        // of Options.TurnBytes
	told  []string                   // the hooks that must not be called twice in a turn
	later []*abi.Event               // what the call under way has brought about
	busy  bool                       // a call is under way

	tx         *vfs.Tx // of the turn, if it has used SQL
	rolledBack bool    // SQLite has ended it

	log   logBudget
	nanos int64 // what the module's monotonic clock says
	now   time.Time
}

// A call is one call of the module by the host.
type call struct {
	*instance
	host    *host.Context   // nil while the module is asked what it does
	ctx     context.Context // ends with the time of the turn
	kind    string          // of the event
	pending []byte          // what take returns
	reply   host.Raw
	fault   *abi.Fault // why the module has failed the turn
	last    error      // what a host function has told the module
	wrote   bool
}

// Close implements what host.Type.Vars asks for: the actor has left memory.
func (i *instance) Close() error {
	i.module.crowd.remove(i)
	i.drop()
	return nil
}

// handle has the module handle an event in a turn, and then what that has brought about.
func (i *instance) handle(c *host.Context, e *abi.Event) (host.Raw, error) {
	if turn := weak.Make(c); i.turn != turn {
		i.turn, i.spent, i.told, i.tx, i.rolledBack = turn, 0, i.told[:0], nil, false
	}
	if !i.first(e) {
		return nil, nil
	}
	if i.busy {
		// The module disconnected a client, or destroys the actor: it is inside a host function,
		// and is told when that has returned.
		i.later = append(i.later, e)
		return nil, nil
	}
	i.busy = true
	defer func() { i.busy, i.later = false, nil }()
	i.module.crowd.enter(i)
	defer i.module.crowd.leave(i)
	ctx, cancel := context.WithTimeout(c, i.module.opts.TurnTimeout)
	defer cancel()
	reply, wrote, err := i.tell(ctx, c, e)
	for n := 0; err == nil && n < len(i.later); n++ {
		var more bool
		_, more, err = i.tell(ctx, c, i.later[n])
		wrote = wrote || more
	}
	if err != nil {
		if i.tx != nil {
			i.tx.Discard() // whatever the turn may have done to the connection
		}
		return nil, err
	}
	if wrote {
		c.Batch().OnAbort(func(reason error) {
			if reason != nil {
				i.stale.Store(true)
			}
		})
	}
	return reply, nil
}

// first says whether the module is to be told of e. A hook whose effect calls the same hook
// would otherwise run for ever.
func (i *instance) first(e *abi.Event) bool {
	if e.Kind != abi.KindDisconnect && e.Kind != abi.KindDestroy {
		return true
	}
	what := e.Kind + e.Conn
	if slices.Contains(i.told, what) {
		return false
	}
	i.told = append(i.told, what)
	return true
}

// tell lets the module handle one event; a new instance wakes first.
func (i *instance) tell(ctx context.Context, c *host.Context, e *abi.Event) (reply host.Raw, wrote bool, err error) {
	if i.stale.Swap(false) {
		i.drop()
	}
	woken := e.Kind == abi.KindCreate || e.Kind == abi.KindWake || !slices.Contains(i.module.says.Hooks, abi.KindWake)
	if i.guest == nil && !woken {
		if _, wrote, err = i.once(ctx, c, &abi.Event{Kind: abi.KindWake}); err != nil {
			return nil, wrote, err
		}
	}
	reply, more, err := i.once(ctx, c, e)
	return reply, wrote || more, err
}

// once is one call of the module.
func (i *instance) once(ctx context.Context, c *host.Context, e *abi.Event) (host.Raw, bool, error) {
	event, err := abi.Marshal(e)
	if err != nil {
		return nil, false, err
	}
	if len(event) > i.module.opts.MaxBytes {
		return nil, false, tooLarge("the event", i.module.opts.MaxBytes)
	}
	k := &call{instance: i, host: c, ctx: ctx, kind: e.Kind, pending: event}
	err = i.run(k, func(ctx context.Context) error {
		_, err := i.guest.ExportedFunction(abi.TurnExport).Call(ctx, api.EncodeI32(int32(len(event))))
		return err
	})
	return k.reply, k.wrote, err
}

// callKey is the key of a call in contexts.
type callKey struct{}

// run calls the module by fn, in a new instance if the actor doesn't have one. If the module
// traps the instance is thrown away.
func (i *instance) run(c *call, fn func(ctx context.Context) error) error {
	i.now = time.Now()
	if c.host != nil {
		i.now = c.host.Now()
	}
	i.nanos = max(i.nanos, i.now.UnixNano())
	ctx := context.WithValue(c.ctx, callKey{}, c)
	defer i.log.flush(c)
	err := i.make(ctx)
	if err == nil {
		err = fn(ctx)
	}
	if err != nil {
		i.drop()
		return trapped(c.ctx, err)
	}
	if c.fault != nil {
		return failure(c.fault, c.last)
	}
	return nil
}

// make instantiates the module.
func (i *instance) make(ctx context.Context) (err error) {
	if i.guest != nil {
		return nil
	}
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").
		WithWalltime(i.walltime, sys.ClockResolution(time.Millisecond)).
		WithNanotime(i.nanotime, 1).WithNanosleep(i.nanosleep).WithRandSource(i.random()).
		WithStdout(&i.log.stdout).WithStderr(&i.log.stderr)
	i.guest, err = i.module.runtime.InstantiateModule(ctx, i.module.compiled, config)
	if err != nil {
		i.guest = nil // whatever it is, it isn't a module
		return fmt.Errorf("instantiate: %w", err)
	}
	return nil
}

// random is where the module's random bytes come from.
func (i *instance) random() io.Reader {
	if r := i.module.opts.Random; r != nil {
		return r
	}
	return rand.Reader
}

// drop throws the instance's memory away.
func (i *instance) drop() {
	if i.guest == nil {
		return
	}
	// Its files are ours, and can't fail to be closed.
	_ = i.guest.Close(context.Background())
	i.guest = nil
}

// walltime is the time of the turn, whenever it is asked for.
func (i *instance) walltime() (sec int64, nsec int32) {
	return i.now.Unix(), int32(i.now.Nanosecond())
}

// nanotime never says the same twice: there are programs that wait for the next moment.
func (i *instance) nanotime() int64 {
	i.nanos++
	return i.nanos
}

// nanosleep returns at once: the actor couldn't do anything else meanwhile.
func (i *instance) nanosleep(ns int64) {
	const most = int64(time.Hour) * 24 * 365
	i.nanos += min(max(ns, 0), most)
}
