package history

import (
	"errors"
	"fmt"
	"maps"
)

func (mt *modelTx) add(op func(s *modelState, l *landing)) { mt.ops = append(mt.ops, op) }

func (m *model) put(mt *modelTx) {
	e := Entry{Location: m.location(), Kind: m.rng.kind()}
	if m.rng.IntN(4) == 0 {
		m.ids++
		e.ID = fmt.Sprint("id", m.ids)
	}
	must(m.r.t, mt.tx.Put(e))
	e.ID = mt.tx.find(e.Location).entry.ID
	m.note("put %x %s %s", string(e.Location), e.ID, e.Type())
	mt.add(func(s *modelState, l *landing) {
		old, ok := s.entries[e.Location]
		if !ok || old.ID != e.ID {
			old = l.gone[e.Location]
		}
		if e.Metadata = nil; old.ID == e.ID {
			e.Metadata = old.Metadata
		}
		s.entries[e.Location] = e
		delete(l.gone, e.Location)
	})
}

func (m *model) putMetadata(mt *modelTx) {
	l, meta := m.location(), m.rng.metadata()
	err := mt.tx.PutMetadata(l, *meta)
	if errors.Is(err, errInvalid) {
		return // nothing is there
	}
	must(m.r.t, err)
	id := mt.tx.find(l).entry.ID
	m.note("metadata %x %s", string(l), id)
	mt.add(func(s *modelState, land *landing) {
		e, ok := s.entries[l]
		if !ok || e.ID != id {
			land.gone[l] = Entry{ID: id, Metadata: meta}
			return
		}
		e.Metadata = meta
		s.entries[l] = e
	})
}

func (m *model) remove(mt *modelTx) {
	if m.rng.IntN(2) == 0 {
		from := uint32(m.rng.IntN(3))
		to := from + uint32(m.rng.IntN(400))
		l := m.r.at("loop")
		_, last, _ := l.Parent()
		m.note("delete iterations %d to %d", from, to)
		mt.tx.DeleteIterations(l, from, to)
		mt.add(removal(func(at Location) bool {
			for i := from; i < to; i++ {
				if at.Within(l.Iteration(last.Name, i)) {
					return true
				}
			}
			return false
		}))
		return
	}
	scope := m.location()
	if m.rng.IntN(10) == 0 {
		scope = ""
	}
	m.note("delete %x", string(scope))
	mt.tx.Delete(scope)
	mt.add(removal(func(at Location) bool { return at.Within(scope) }))
}

func removal(in func(Location) bool) func(s *modelState, l *landing) {
	return func(s *modelState, l *landing) {
		maps.DeleteFunc(s.entries, func(at Location, _ Entry) bool { return in(at) })
		maps.DeleteFunc(l.gone, func(at Location, _ Entry) bool { return in(at) })
	}
}

func (m *model) setState(mt *modelTx) {
	to := State(1 + m.rng.IntN(len(states)-1))
	if to == Cancelled && m.rng.IntN(4) > 0 {
		to = Sleeping
	}
	if mt.tx.SetState(to) != nil {
		return
	}
	m.note("state %v", to)
	mt.add(func(_ *modelState, l *landing) { l.to = &to })
}

func (m *model) setValue(mt *modelTx) {
	v := m.rng.maybeValue()
	if len(v) == 0 {
		v = nil
	}
	which := m.rng.IntN(4)
	var waits []Wait
	var err error
	switch which {
	case 0:
		err = mt.tx.SetInput(v)
	case 1:
		err = mt.tx.SetOutput(v)
	case 2:
		if v != nil {
			waits = m.rng.waits()
		}
		err = mt.tx.SetWaits(waits)
	default:
		var f *Failure
		if v != nil {
			f = &Failure{Name: "Error", Message: fmt.Sprintf("%x", v)}
		}
		err = mt.tx.SetError(f)
	}
	if err != nil {
		return // cancelled
	}
	m.note("value %d %x", which, v)
	mt.add(func(s *modelState, l *landing) {
		if l.cancelled {
			l.err = ErrCancelled
		}
		switch which {
		case 0:
			s.input = string(v)
		case 1:
			s.output, l.output = string(v), true
		case 2:
			s.waits, l.waits = waits, true
		case 3:
			if s.failed, l.failed = "", true; v != nil {
				s.failed = fmt.Sprintf("Error: %x", v)
			}
		}
	})
}

func (m *model) reset(mt *modelTx) {
	if mt.tx.Reset(false) != nil {
		return // cancelled
	}
	m.note("reset")
	mt.add(func(s *modelState, l *landing) {
		if l.cancelled {
			l.err = ErrCancelled
		}
		*s = modelState{entries: map[Location]Entry{}}
		l.to, l.output, l.failed, l.waits = nil, true, true, true
		clear(l.gone)
	})
}
