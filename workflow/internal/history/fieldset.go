package history

import "fmt"

// A fieldSet is the single values of a workflow. It is a part of memory, under its lock.
type fieldSet struct {
	state   State
	values  [fields][]byte // encoded; nil for none. That of the state is what is stored.
	failure *Failure       // what the error's value says
	sizes   [fields]int    // of the stored values, absent if there are none
}

// follow makes the fields what c makes of them.
func (s *fieldSet) follow(c *fieldChanges) {
	s.state = c.state(s.state)
	for f := fieldState + 1; f < fields; f++ {
		if c.sets(f) {
			s.values[f] = c.values[f]
		}
	}
	if c.sets(fieldError) {
		s.failure = c.failure
	}
}

// fieldChanges are what a transaction makes of the fields. They are the transaction's own.
type fieldChanges struct {
	reset   bool
	restart bool           // of one that is over
	set     [fields]bool   // which fields are changed
	values  [fields][]byte // to what; nil: removed. That of the state isn't used.
	to      State
	failure *Failure // what the error's value says
}

// state returns what becomes of a state.
func (c *fieldChanges) state(from State) State {
	if c.set[fieldState] {
		return c.to
	}
	return from
}

// removeAll removes every field, as Tx.Reset does.
func (c *fieldChanges) removeAll(again bool) {
	*c = fieldChanges{reset: true, restart: again}
	for f := range fields {
		c.set[f] = true
	}
}

// allowed says why a workflow in the state can't become what c makes of it.
func (c *fieldChanges) allowed(from State) error {
	values := c.set[fieldOutput] || c.set[fieldError] || c.set[fieldInput]
	switch {
	case c.reset:
		if err := mayReset(from, c.restart); err != nil {
			return err
		}
	case from == Cancelled && values:
		return fmt.Errorf("history: %w", ErrCancelled)
	}
	if c.reset {
		from = Pending
	}
	if c.set[fieldState] && !from.may(c.to) {
		return &transitionError{from, c.to}
	}
	return nil
}

// mayReset says why a workflow in the state can't be reset.
func mayReset(from State, again bool) error {
	switch {
	case again && !from.over():
		return &transitionError{from, Pending}
	case !again && from == Cancelled:
		return fmt.Errorf("history: reset: %w", ErrCancelled)
	}
	return nil
}

// sets reports whether c changes a field, also as what follows from the state that it sets.
func (c *fieldChanges) sets(f field) bool {
	if c.set[f] || !c.set[fieldState] {
		return c.set[f]
	}
	switch f {
	case fieldOutput:
		return c.to == Completed || c.to == Failed || c.to == RollingBack
	case fieldError:
		return c.to == Completed
	case fieldWaits:
		return c.to.over() || c.to == RollingBack
	}
	return false
}
