package workflow

import "github.com/greenroomdb/greenroom/workflow/internal/history"

// A mending makes a workflow that is over go on.
type mending struct {
	s  *history.Snapshot
	tx *history.Tx
	// branches are those that must run again, by the join or race, and by name.
	branches map[history.Location]map[history.NameIndex]bool
	steps    []history.Entry // to be tried anew
	newID    func() string
}

// mend returns the mending that has tx change what s shows.
func mend(s *history.Snapshot, tx *history.Tx, newID func() string) mending {
	return mending{s: s, tx: tx, branches: map[history.Location]map[history.NameIndex]bool{}, newID: newID}
}

// renew makes a step that failed or was undone be tried anew.
func (m *mending) renew(e history.Entry) {
	if _, ok := e.Kind.(history.Step); !ok || e.Metadata == nil {
		return
	}
	s := e.Metadata.Status
	if s == history.StatusFailed || s == history.StatusExhausted || e.Metadata.RollbackCompletedAt != nil {
		m.again(e.Location)
		m.steps = append(m.steps, e)
	}
}

// reset makes a step one that was never tried. A step that was undone gets a new ID: a service that knows the old one
// would answer with what it has taken back since.
func (m *mending) reset(e history.Entry) error {
	id := e.ID
	if e.Metadata.RollbackCompletedAt != nil {
		id = m.newID()
	}
	err := m.tx.Put(history.Entry{ID: id, Location: e.Location, Kind: history.Step{}})
	if err == nil {
		err = m.tx.PutMetadata(e.Location, history.Metadata{CreatedAt: e.Metadata.CreatedAt})
	}
	return err
}

// again notes that the branches around a location must run again.
func (m *mending) again(l history.Location) {
	for {
		parent, last, ok := l.Parent()
		if !ok {
			return
		}
		if m.branches[parent] == nil {
			m.branches[parent] = map[history.NameIndex]bool{}
		}
		m.branches[parent][last.Name] = true
		l = parent
	}
}

// finish changes the joins and races, the steps, and the state: in this order, since which
// branches run again follows from the steps, as long as they are as they were.
func (m *mending) finish() error {
	for _, e := range m.s.Entries {
		k, changed := m.fork(e)
		if !changed {
			continue
		}
		meta := history.Metadata{Status: history.StatusRunning}
		if e.Metadata != nil {
			meta.CreatedAt = e.Metadata.CreatedAt
		}
		err := m.tx.Put(history.Entry{ID: e.ID, Location: e.Location, Kind: k})
		if err == nil {
			err = m.tx.PutMetadata(e.Location, meta)
		}
		if err != nil {
			return err
		}
	}
	for _, e := range m.steps {
		if err := m.reset(e); err != nil {
			return err
		}
	}
	err := m.tx.SetError(nil)
	if err == nil {
		err = m.tx.SetOutput(nil)
	}
	if err == nil {
		err = m.tx.SetState(history.Sleeping)
	}
	if err == nil {
		err = m.tx.SetWaits(toRun)
	}
	return err
}

// toRun is recorded of a workflow that sleeps and has something to do at once.
var toRun = []history.Wait{{For: history.WaitRun}}

// fork returns a join or a race in which the branches run again that failed, or have
// something in them that must be done again. A race begins anew with all its branches.
func (m *mending) fork(e history.Entry) (k history.Kind, changed bool) {
	inside := m.branches[e.Location]
	renew := func(bs []history.Branch, all bool) (out []history.Branch) {
		for _, b := range bs {
			i, known := m.index(b.Name)
			if all || b.Status == history.BranchFailed || known && inside[i] {
				b, changed = history.Branch{Name: b.Name}, true
			}
			out = append(out, b)
		}
		return out
	}
	switch k := e.Kind.(type) {
	case history.Join:
		k.Branches = renew(k.Branches, false)
		return k, changed
	case history.Race:
		if k.Winner == nil || len(inside) > 0 {
			k.Branches, k.Winner = renew(k.Branches, len(inside) > 0), nil
		}
		return k, changed
	}
	return nil, false
}

func (m *mending) index(name string) (history.NameIndex, bool) {
	for i, n := range m.s.Names {
		if n == name {
			return history.NameIndex(i), true
		}
	}
	return 0, false
}
