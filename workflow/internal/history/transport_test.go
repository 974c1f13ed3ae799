package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom/internal/bare"
)

// appendTransport appends s in the form in which inspectors take it: BARE without a
// version, {names list<str>, entries list<Entry>, metadata map<str, Metadata>}. The state,
// the input, the output and the error are not in it. Metadata come in the order of the
// entries, and then the orphans' by id. Names that are no UTF-8 come with what is wrong
// replaced.
func (s *Snapshot) appendTransport(dst []byte) []byte {
	dst = bare.AppendUint(dst, uint64(len(s.Names)))
	for _, name := range s.Names {
		dst = bare.AppendString(dst, strings.ToValidUTF8(name, "\uFFFD"))
	}
	dst = bare.AppendUint(dst, uint64(len(s.Entries)))
	n := len(s.Orphans)
	for i := range s.Entries {
		dst = appendEntryBody(dst, &s.Entries[i])
		if s.Entries[i].Metadata != nil {
			n++
		}
	}
	dst = bare.AppendUint(dst, uint64(n))
	for _, e := range s.Entries {
		if e.Metadata != nil {
			dst = appendMetadataBody(bare.AppendString(dst, e.ID), e.Metadata)
		}
	}
	for _, id := range s.orphans() {
		dst = appendMetadataBody(bare.AppendString(dst, id), s.Orphans[id])
	}
	return dst
}

// parseTransport decodes what appendTransport makes; entries and metadata may come in any
// order. Other bytes are errCorrupt.
func parseTransport(b []byte) (*Snapshot, error) {
	r := bare.NewReader(b)
	s := &Snapshot{}
	for range r.Len(math.MaxInt) {
		s.Names = append(s.Names, r.String())
	}
	ids := map[string]int{}
	for range r.Len(math.MaxInt) {
		e := readEntry(r)
		if _, twice := ids[e.ID]; twice {
			r.Fail("entry %q comes twice", e.ID)
		}
		if r.Err() != nil {
			break
		}
		ids[e.ID] = len(s.Entries)
		s.Entries = append(s.Entries, e)
	}
	s.readTransportMetadata(r, ids)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	slices.SortStableFunc(s.Entries, byLocation)
	return s, nil
}

// readTransportMetadata reads the map of metadata; ids says where entries are.
func (s *Snapshot) readTransportMetadata(r *bare.Reader, ids map[string]int) {
	for range r.Len(math.MaxInt) {
		id := r.String()
		m := readMetadata(r)
		i, known := ids[id]
		if known && s.Entries[i].Metadata != nil || s.Orphans[id] != nil {
			r.Fail("metadata of %q come twice", id)
		}
		if r.Err() != nil {
			return
		}
		if known {
			s.Entries[i].Metadata = m
			continue
		}
		if s.Orphans == nil {
			s.Orphans = map[string]*Metadata{}
		}
		s.Orphans[id] = m
	}
}

// orphans returns the ids of the orphans, sorted.
func (s *Snapshot) orphans() []string { return slices.Sorted(maps.Keys(s.Orphans)) }
