package history

import (
	"cmp"
	"context"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Read returns what is stored of the workflow of an actor, without owning it, and what is
// wrong with it, in the order of the keys: what can't be read is left out, and the rest is
// returned. An entry whose location has a segment without a name is returned.
//
// It reads one range of the engine. An error is the engine's.
func Read(ctx context.Context, r actorstore.Reader) (*Snapshot, []Damage, error) {
	panic("history: not written yet")
}

// Path returns a location in words, for people: names with "/" between them, and
// iterations as "loop[3]". A name that holds more than letters, digits and plain signs is
// quoted, and one that isn't registered is "#" and its index; so different locations have
// different words. The root is ".".
//
//	order/charge    orders[3]/"a/b"    orders[3]/pick/left/#17
func (s *Snapshot) Path(l Location) string { panic("history: not written yet") }

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

// AppendTransport appends s in the form in which inspectors take it: BARE without a
// version, {names list<str>, entries list<Entry>, metadata map<str, Metadata>}. The state,
// the input, the output and the error are not in it. Metadata come in the order of the
// entries, and then the orphans' by id.
func (s *Snapshot) AppendTransport(dst []byte) []byte { panic("history: not written yet") }

// ParseTransport decodes what AppendTransport makes. Other bytes are ErrCorrupt.
func ParseTransport(b []byte) (*Snapshot, error) { panic("history: not written yet") }

// MarshalJSON returns s in a form to be kept in a file, which holds everything: values are
// in base64, and each entry has its path beside it, for people.
func (s *Snapshot) MarshalJSON() ([]byte, error) { panic("history: not written yet") }

// UnmarshalJSON reads what MarshalJSON makes. Paths are not looked at. What doesn't fit
// together, as an entry with a name that is missing, is ErrInvalid.
func (s *Snapshot) UnmarshalJSON(b []byte) error { panic("history: not written yet") }
