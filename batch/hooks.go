package batch

// OnCommit adds a hook that runs when the batch has been applied, in the order
// in which hooks were added. Hooks make the memory follow the store: they must
// be quick, must not fail and must not call into the store, which may hold a
// lock. It panics if b was settled already, since the hook could never run.
func (b *Batch) OnCommit(fn func()) {
	b.mustBeOpen()
	b.onCommit = append(b.onCommit, fn)
}

// OnAbort adds a hook that runs when the batch was not applied, or only in part
// (an Ordered one); it gets the reason. Abort hooks run in the reverse of the
// order in which they were added, as what they undo was built up. Else as OnCommit.
func (b *Batch) OnAbort(fn func(reason error)) {
	b.mustBeOpen()
	b.onAbort = append(b.onAbort, fn)
}

// Late adds a function that Seal runs when everything else has been staged: for
// values that depend on what else lands, such as a counter shared by all. It may
// stage more, add hooks, and add Late functions, which run after it. An error
// makes the commit fail before anything is written. It panics if b was settled.
func (b *Batch) Late(fn func(*Batch) error) {
	b.mustBeOpen()
	b.late = append(b.late, fn)
}

func (b *Batch) mustBeOpen() {
	if b.settled {
		panic("batch: hook added to a settled batch")
	}
}

// Seal runs the Late functions in order, each once, and returns the first error;
// so does every later Seal, since the batch is then staged in part only. The
// store calls it under its commit lock just before Split. Sealing again after
// success runs only functions added since, so a commit may be retried. On a
// settled batch Seal returns ErrSettled.
func (b *Batch) Seal() error {
	if b.settled {
		return ErrSettled
	}
	for b.lateErr == nil && b.lateRun < len(b.late) {
		fn := b.late[b.lateRun]
		b.lateRun++
		b.lateErr = fn(b)
	}
	return b.lateErr
}

// Settle tells b what became of it: nil runs the OnCommit hooks, in order, an
// error the OnAbort hooks, in reverse. Only the first Settle or Abort of a batch
// counts, later ones do nothing: whoever stages can defer an Abort.
//
// The store calls Settle(nil) when the batch is applied, before it waits for
// durability; a failed sync poisons the store and unsettles nothing.
func (b *Batch) Settle(err error) {
	if b.settled {
		return
	}
	b.settled = true
	if err == nil {
		for _, fn := range b.onCommit {
			fn()
		}
		return
	}
	for i := len(b.onAbort) - 1; i >= 0; i-- {
		b.onAbort[i](err)
	}
}

// Abort gives b up: it is Settle with reason, or with ErrAborted if that is nil.
func (b *Batch) Abort(reason error) {
	if reason == nil {
		reason = ErrAborted
	}
	b.Settle(reason)
}

// Settled reports whether b has been settled or given up.
func (b *Batch) Settled() bool { return b.settled }
