package history

// A view is what callers may ask of the memory, and which names they give to places. Each of its methods takes the lock once.
type view struct{ contents }

// State returns the workflow's state.
func (v *view) State() State {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.m.state
}

// Input returns what the workflow was started with, encoded; nil if it wasn't. The bytes
// must not be changed.
func (v *view) Input() []byte { return v.value(fieldInput) }

// Output returns what the workflow returned, encoded; nil for none. The bytes must not be
// changed.
func (v *view) Output() []byte { return v.value(fieldOutput) }

func (v *view) value(f field) []byte {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.m.values[f]
}

// Failure returns the error with which the workflow failed, nil for none. It must not be
// changed.
func (v *view) Failure() *Failure {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.m.failure
}

// Get returns the entry at a location.
func (v *view) Get(l Location) (Entry, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if rec, ok := v.m.records[l]; ok {
		return rec.Entry, true
	}
	return Entry{}, false
}

// In returns the entries in a scope, not the one at it, sorted by Location.
func (v *view) In(scope Location) []Entry {
	v.mu.RLock()
	defer v.mu.RUnlock()
	es := v.m.entries(in(scope))
	if len(es) > 0 && es[0].Location == scope {
		return es[1:]
	}
	return es
}

// FirstIn returns the first entry that stands in a scope itself, not in something there,
// and whose name is not passed; ok is false for none. passed must not call the History.
func (v *view) FirstIn(scope Location, passed func(NameIndex) bool) (l Location, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	from, to := v.m.span(in(scope))
	for _, l := range v.m.order[from:to] {
		if i, direct := l.nameIn(scope); direct && !passed(i) {
			return l, true
		}
	}
	return "", false
}

// Newest returns when and where the entry was created that is the last in Snapshot.ByAge;
// zero values if there are none.
func (v *view) Newest() (created Millis, at Location) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, l := range v.m.order {
		if m := v.m.records[l].Metadata; m != nil && m.CreatedAt >= created {
			created, at = m.CreatedAt, l
		}
	}
	return created, at
}

// Written reports whether the entry at l is stored as it is in memory.
func (v *view) Written(l Location) bool {
	return !v.dirty.Dirty(deferred{what: whatEntry, at: l})
}

// Deferred returns how many writes were deferred, and the bytes of their values but for
// those of fields.
func (v *view) Deferred() (writes, bytes int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if writes = v.dirty.Len(); writes == 0 {
		return 0, 0
	}
	for _, d := range v.dirty.Capture().Keys() {
		switch rec := v.m.records[d.at]; {
		case rec == nil:
		case d.what == whatEntry:
			bytes += len(rec.value)
		case d.what == whatMetadata:
			bytes += len(rec.metaValue)
		}
	}
	return writes, bytes
}

// Usage returns how much there is: entries, and the bytes that are stored for the workflow
// as the actor's quota counts them, names, metadata, input and output too. What was
// deferred counts as an entry, and not in bytes.
func (v *view) Usage() (entries int, bytes int64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.m.order), v.m.bytes
}

// Waiting returns what Snapshot.Waits and Snapshot.Began need: the rest only if that is needed, too.
func (v *view) Waiting() *Snapshot {
	v.mu.RLock()
	s := &Snapshot{State: v.m.state, Input: v.m.values[fieldInput], Rested: rested(v.m.values[fieldWaits])}
	v.mu.RUnlock()
	if s.State == Sleeping && s.Rested == nil {
		return v.Snapshot()
	}
	return s
}

// Snapshot returns everything, as it is in memory.
func (v *view) Snapshot() *Snapshot {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.m.snapshot()
}

// Name returns the index of a name, which is registered if it is new; it is written with
// the next commit of anything. A name that is not UTF-8 is errInvalid, and one of more
// than maxName bytes, or than a value may have, errTooLarge.
func (v *view) Name(name string) (NameIndex, error) {
	if i, ok := v.Lookup(name); ok {
		return i, nil
	}
	if err := v.checkName(name); err != nil {
		return 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.m.register(name), nil
}

// Lookup returns the index of a name that is registered.
func (v *view) Lookup(name string) (NameIndex, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	i, ok := v.m.index[name]
	return i, ok
}

// NameOf returns the name of that index, "" without one.
func (v *view) NameOf(i NameIndex) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if int64(i) < int64(len(v.m.names)) {
		return v.m.names[i]
	}
	return ""
}

// Unstored returns how many names are registered and not written.
func (v *view) Unstored() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.m.names) - int(v.m.stored)
}
