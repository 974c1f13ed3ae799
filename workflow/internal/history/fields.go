package history

import (
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/batch"
)

// SetState changes the workflow's state. Unless tx says otherwise, Completed removes the
// error and the output, and Failed and RollingBack the output.
//
// A change that the state doesn't allow (State.may) is a *transitionError, now or when tx
// is written, and then all of tx is refused.
func (tx *Tx) SetState(s State) error {
	if tx.used {
		return errUsed
	}
	from := Pending
	if !tx.reset {
		from = tx.h.State()
	}
	if !from.may(s) {
		return &transitionError{from, s}
	}
	tx.set[fieldState], tx.to = true, s
	return nil
}

// SetInput stores what the workflow is started with; nil removes it. Errors of this and of
// the next two are those of Put, and ErrCancelled, now or when tx is written.
func (tx *Tx) SetInput(v []byte) error { return tx.setValue(fieldInput, v) }

// SetOutput stores what the workflow returned; nil removes it.
func (tx *Tx) SetOutput(v []byte) error { return tx.setValue(fieldOutput, v) }

// SetError stores the error with which the workflow failed; nil removes it. Texts longer
// than 16 KiB are cut, and if it is too large all the same, the stack and then the
// metadata are left out.
func (tx *Tx) SetError(f *Failure) error {
	if f == nil {
		tx.failure = nil
		return tx.setValue(fieldError, nil)
	}
	f, err := f.clean()
	if err != nil {
		return err
	}
	for {
		v, err := f.encode()
		if err != nil {
			return err
		}
		err = tx.setValue(fieldError, v)
		switch {
		case err == nil: // and memory has what will be read
			tx.failure, err = parseFailure(v)
			return err
		case f.Stack != "":
			f.Stack = ""
		case f.Metadata != nil:
			f.Metadata = nil
		default:
			return err
		}
	}
}

// SetWaits stores what the workflow waits for, which counts while it is Sleeping; nil removes the record, and
// so does a state of a workflow that waits no more. Waits that are too many for the store become one of each kind.
// Errors are those of SetInput.
func (tx *Tx) SetWaits(waits []Wait) error {
	if waits == nil {
		return tx.setValue(fieldWaits, nil)
	}
	waits = slices.Clone(waits)
	cleanWaits(waits)
	err := tx.setValue(fieldWaits, appendWaits(nil, waits))
	if few := oneOfEach(waits); err != nil && len(few) < len(waits) {
		err = tx.setValue(fieldWaits, appendWaits(nil, few))
	}
	return err
}

func (tx *Tx) setValue(f field, v []byte) error {
	if tx.used {
		return errUsed
	}
	if !tx.reset && tx.h.State() == Cancelled {
		return fmt.Errorf("history: %s: %w", fieldNames[f], ErrCancelled)
	}
	put := batch.Op{Kind: batch.Put, Key: appendFieldKey(tx.h.actor.Layout(), nil, f), Value: v}
	if err := sizeError(fieldNames[f], tx.h.limits.Check(put)); err != nil {
		return err
	}
	tx.set[f], tx.values[f] = true, v
	return nil
}

// Reset removes everything of the workflow but its names, and makes its state Pending, as
// if it had never run: what tx does after that is the next run's. Unless again is set, a workflow that is
// cancelled stays, with ErrCancelled, and if it is set, one that isn't over, with a *transitionError: now or when tx is written.
func (tx *Tx) Reset(again bool) error {
	if tx.used {
		return errUsed
	}
	if err := mayReset(tx.h.State(), again); err != nil {
		return err
	}
	tx.Delete("")
	tx.removeAll(again)
	return nil
}

// Restore makes the workflow what a Snapshot is, with new ids for entries that have none.
// Orphans are left out. The workflow must be empty, with no names: else errInvalid.
func (tx *Tx) Restore(s *Snapshot) error {
	if err := tx.h.restoreNames(s.Names); err != nil {
		return err
	}
	for _, e := range s.Entries {
		if err := tx.Put(e); err != nil {
			return err
		}
		if e.Metadata != nil {
			if err := tx.PutMetadata(e.Location, *e.Metadata); err != nil {
				return err
			}
		}
	}
	if s.Input != nil {
		if err := tx.SetInput(s.Input); err != nil {
			return err
		}
	}
	if s.Output != nil {
		if err := tx.SetOutput(s.Output); err != nil {
			return err
		}
	}
	if s.Error != nil {
		if err := tx.SetError(s.Error); err != nil {
			return err
		}
	}
	if s.Rested != nil {
		if err := tx.SetWaits(s.Rested); err != nil {
			return err
		}
	}
	return tx.SetState(s.State)
}
