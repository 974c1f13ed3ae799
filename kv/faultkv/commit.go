package faultkv

import (
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/kv"
)

// Commit is kv.Engine's. Of the faults, it meets those that are set when it begins.
func (e *Engine) Commit(ctx context.Context, c *kv.Commit) error {
	e.count(c)
	if e.plan.Load() == nil {
		return e.below.Commit(ctx, c)
	}
	if err := e.at(ctx, Op{Point: BeforeCommit, Commit: c}); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = kv.NotApplied(err) // it was waited for, in vain
		}
		return err
	}
	// The last look before the commit goes out: it may have been paused for long.
	var t *tear
	if p := e.plan.Load(); p != nil {
		t = p.tear
	}
	if !t.admit() {
		return ErrTorn
	}
	applied, err := e.send(ctx, c)
	t.done(applied)
	if err != nil {
		return err
	}
	return e.at(ctx, Op{Point: AfterCommit, Commit: c})
}

func (e *Engine) count(c *kv.Commit) {
	e.commits.Add(1)
	if c.Durability == kv.Durable {
		e.durable.Add(1)
	}
	e.ops.Add(int64(len(c.Ops)))
	n := 0
	for i := range c.Ops {
		n += len(c.Ops[i].Key) + len(c.Ops[i].Value)
	}
	e.bytes.Add(int64(n))
}

// A call is a commit at the engine below, and stands between its OnApply and its
// user's. It is used again, so that a commit allocates nothing.
type call struct {
	e       *Engine
	ctx     context.Context
	user    *kv.Commit
	sent    kv.Commit
	applied bool
	lost    error // what AfterApply made of the acknowledgement
}

// send passes c on to the engine below, and says whether it was applied.
func (e *Engine) send(ctx context.Context, c *kv.Commit) (applied bool, err error) {
	k, ok := e.calls.Get().(*call)
	if !ok {
		k = new(call)
		k.sent.OnApply = k.onApply
	}
	onApply := k.sent.OnApply
	k.e, k.ctx, k.user, k.sent = e, ctx, c, *c
	k.sent.OnApply = onApply
	err = e.below.Commit(ctx, &k.sent)
	if k.lost != nil {
		err = k.lost
	}
	applied = k.applied
	*k = call{sent: kv.Commit{OnApply: onApply}}
	e.calls.Put(k)
	return applied, err
}

func (k *call) onApply() {
	k.applied = true
	k.lost = k.e.at(k.ctx, Op{Point: AfterApply, Commit: k.user})
	if k.lost == nil && k.user.OnApply != nil {
		k.user.OnApply()
	}
}
