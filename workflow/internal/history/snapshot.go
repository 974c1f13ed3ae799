package history

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A Snapshot is everything that is stored of a workflow, or was in memory at a moment. It
// is its owner's own, but the bytes, slices and Metadata in it are shared and must not be
// changed.
type Snapshot struct {
	State  State
	Input  []byte // encoded; nil for none
	Output []byte // encoded; nil for none
	Error  *Failure
	// Names are the registry, by NameIndex.
	Names []string
	// Entries are sorted by Location, each with its Metadata.
	Entries []Entry
	// Rested is what the workflow waited for when it came to rest last, nil for no record of it: see Waits.
	Rested []Wait
	// Orphans are metadata of entries that aren't there, by the entry's ID; nil for none.
	Orphans map[string]*Metadata
}

// snapshot returns a copy of m.
func (m *memory) snapshot() *Snapshot {
	s := &Snapshot{
		State: m.state, Input: m.values[fieldInput], Output: m.values[fieldOutput], Error: m.failure,
		Names: slices.Clone(m.names), Entries: m.entries(everything), Rested: rested(m.values[fieldWaits]),
	}
	for id, o := range m.orphans.byID {
		if s.Orphans == nil {
			s.Orphans = make(map[string]*Metadata, len(m.orphans.byID))
		}
		s.Orphans[id] = o.Metadata
	}
	return s
}

// Waits returns what the workflow waits for, what is due first at the front; nil for one that is over or has no input.
//
// Waits that were recorded count as long as the state is Sleeping: what ends one lands with another state. A
// workflow that sleeps without such a record was run by a program that made none. What its entries say is
// returned then: the sleeps, and the steps that failed, whose next attempt has no time.
func (s *Snapshot) Waits() []Wait {
	switch {
	case s.State.over() || s.Input == nil:
		return nil
	case s.State == Sleeping && s.Rested != nil:
		return s.Rested
	case s.State == Sleeping:
		if waits := s.evident(); waits != nil {
			return waits
		}
	}
	return []Wait{{For: WaitRun}}
}

// Stuck reports whether the workflow came to rest, and nothing that comes by itself can wake it: it waits for nothing but
// Resume, or its input is gone. Of one that no run has recorded the waits of, of RivetKit for one, that isn't known.
func (s *Snapshot) Stuck() bool {
	return s.State == Sleeping && s.Rested != nil &&
		(s.Input == nil || !slices.ContainsFunc(s.Rested, func(w Wait) bool { return w.For != WaitResume }))
}

// evident returns the waits that follow from entries. What has lost a race has none.
func (s *Snapshot) evident() (waits []Wait) {
	for _, e := range s.Entries {
		if e.Metadata == nil {
			continue
		}
		w := Wait{Since: e.Metadata.CreatedAt}
		switch k := e.Kind.(type) {
		case Sleep:
			if k.State != SleepPending {
				continue
			}
			w.For, w.Until = WaitTimer, k.Deadline
		case Step:
			if e.Metadata.Status != StatusFailed {
				continue
			}
			w.For, w.Since = WaitAttempt, e.Metadata.LastAttemptAt
			if e.Metadata.Error != nil {
				w.Error = *e.Metadata.Error
			}
		default:
			continue
		}
		w.Path = s.Path(e.Location)
		waits = append(waits, w)
	}
	sortWaits(waits)
	return waits
}

// Began sorts waits, and gives those that are recorded the time at which they began: a wait goes on over several runs.
func (s *Snapshot) Began(waits []Wait) {
	cleanWaits(waits)
	sortWaits(waits)
	at := map[string]Wait{}
	for _, w := range s.Rested {
		at[w.Path] = w
	}
	for i, w := range waits {
		if was := at[w.Path]; was.same(w) {
			waits[i].Since = was.Since
		}
	}
}

// Path returns a location in words, for people: names with "/" between them, and
// iterations as "loop[3]". A name that holds more than letters, digits and some plain
// signs is quoted, and one that isn't registered is "#" and its index; so different
// locations have different words. The root is ".".
//
//	order/charge    orders[3]/"a/b"    orders[3]/pick/left/#17
func (s *Snapshot) Path(l Location) string { return string(appendPath(nil, l, s.Names)) }

// Lookup returns the index of a name that is registered.
func (s *Snapshot) Lookup(name string) (NameIndex, bool) {
	i := slices.Index(s.Names, name)
	return NameIndex(max(0, i)), i >= 0
}

// ByAge returns the entries in the order in which they were created, as their metadata
// say; those of one millisecond, and those without metadata, which come first, by
// Location.
func (s *Snapshot) ByAge() []Entry {
	age := func(e Entry) Millis {
		if e.Metadata == nil {
			return 0
		}
		return e.Metadata.CreatedAt
	}
	es := slices.Clone(s.Entries)
	slices.SortStableFunc(es, func(a, b Entry) int { return cmp.Compare(age(a), age(b)) })
	return es
}

// Found reads by which state of its workflow an actor is to be found, "" for none, whether the workflow is stuck, and when the state was stored, zero for none.
func Found(l actorstore.Layout, at func(key []byte) iter.Seq2[actorstore.Entry, error]) (state string, stuck bool, since time.Time, err error) {
	var values [fields][]byte
	for _, f := range []field{fieldState, fieldInput, fieldWaits} {
		for e, err := range at(appendFieldKey(l, nil, f)) {
			if err != nil {
				return "", false, time.Time{}, err
			}
			if values[f] = append([]byte{}, e.Value...); f == fieldState {
				since = e.Updated
			}
		}
	}
	if values[fieldWaits] != nil {
		if _, err := parseWaits(values[fieldWaits]); err != nil {
			return "", false, time.Time{}, fmt.Errorf("history: waits: %w", err)
		}
	}
	state, stuck = found(string(values[fieldState]), values[fieldInput], values[fieldWaits])
	return state, stuck, since, nil
}

// found returns by which state of its workflow an actor is found, "" for none, and whether it is stuck: see Snapshot.Stuck.
func found(text string, input, waits []byte) (state string, stuck bool) {
	s, err := parseState(cmp.Or(text, Pending.String()))
	switch {
	case err != nil, s == Pending && input == nil:
		return "", false
	case s != Sleeping:
		return s.String(), false
	}
	return s.String(), (&Snapshot{State: s, Input: input, Rested: rested(waits)}).Stuck()
}
