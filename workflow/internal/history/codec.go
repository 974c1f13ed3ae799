package history

import (
	"fmt"
	"math"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// The stored form of entries, metadata and waits is a version, 1, and BARE, for entries and
// metadata in the schema of Rivet's workflow engine (https://github.com/rivet-gg/rivet):
//
//	Entry     id str, location list<Segment>, kind Kind
//	Segment   union: 0 name u32 | 1 {loop u32, iteration u32}
//	Kind      union: 0 Step {output optional<data>, error optional<str>}
//	                 1 Loop {state data, iteration u32, output optional<data>}
//	                 2 Sleep {deadline u64 ms, state enum}
//	                 3 Message {name str, data data}
//	                 4 Checkpoint {name str}
//	                 5 Join {branches map<str, Branch>}
//	                 6 Race {winner optional<str>, branches map<str, Branch>}
//	                 7 Removed {original str, name optional<str>}
//	                 8 Version {resolved u32, latest u32}
//	Branch    status enum, output optional<data>, error optional<str>
//	Metadata  status enum, error optional<str>, attempts u32, last attempt u64 ms, created
//	          u64 ms, completed optional<u64> ms, rolled back optional<u64> ms, rollback
//	          error optional<str>
//	Waits     list<Wait>
//	Wait      for enum, path str, since u64 ms, until u64 ms, names list<str>, error str
//
// Enumerations have the numbers of their constants.
const formatVersion = 1

// appendEntry appends the stored form of an entry.
func appendEntry(dst []byte, e *Entry) []byte {
	return appendEntryBody(bare.AppendVersion(dst, formatVersion), e)
}

// appendEntryBody appends an entry without its version.
func appendEntryBody(dst []byte, e *Entry) []byte {
	dst = bare.AppendString(dst, e.ID)
	n := 0
	for range e.Location.segments() {
		n++
	}
	dst = bare.AppendUint(dst, uint64(n))
	for s := range e.Location.segments() {
		dst = appendSegment(dst, s)
	}
	return appendKind(bare.AppendU8(dst, uint8(e.Kind.kind())), e.Kind)
}

func appendSegment(dst []byte, s segment) []byte {
	if !s.Loop {
		return bare.AppendU32(bare.AppendU8(dst, 0), uint32(s.Name))
	}
	return bare.AppendU32(bare.AppendU32(bare.AppendU8(dst, 1), uint32(s.Name)), s.Iteration)
}

// appendKind appends a kind without its tag.
func appendKind(dst []byte, kind Kind) []byte {
	switch k := kind.(type) {
	case Step:
		return appendText(appendValue(dst, k.Output), k.Error)
	case Loop:
		dst = bare.AppendU32(bare.AppendData(dst, k.State), k.Iteration)
		return appendValue(dst, k.Output)
	case Sleep:
		return bare.AppendU8(bare.AppendU64(dst, uint64(k.Deadline)), uint8(k.State))
	case Message:
		return bare.AppendData(bare.AppendString(dst, k.Name), k.Data)
	case Checkpoint:
		return bare.AppendString(dst, k.Name)
	case Join:
		return appendBranches(dst, k.Branches)
	case Race:
		return appendBranches(appendText(dst, k.Winner), k.Branches)
	case Removed:
		return appendText(bare.AppendString(dst, k.Original), k.Name)
	case Version:
		return bare.AppendU32(bare.AppendU32(dst, k.Resolved), k.Latest)
	}
	panic(fmt.Sprintf("history: kind %T", kind))
}

func appendBranches(dst []byte, branches []Branch) []byte {
	dst = bare.AppendUint(dst, uint64(len(branches)))
	for _, b := range branches {
		dst = bare.AppendU8(bare.AppendString(dst, b.Name), uint8(b.Status))
		dst = appendText(appendValue(dst, b.Output), b.Error)
	}
	return dst
}

// appendMetadata appends the stored form of metadata.
func appendMetadata(dst []byte, m *Metadata) []byte {
	return appendMetadataBody(bare.AppendVersion(dst, formatVersion), m)
}

// appendMetadataBody appends metadata without their version.
func appendMetadataBody(dst []byte, m *Metadata) []byte {
	dst = appendText(bare.AppendU8(dst, uint8(m.Status)), m.Error)
	dst = bare.AppendU32(dst, m.Attempts)
	dst = bare.AppendU64(bare.AppendU64(dst, uint64(m.LastAttemptAt)), uint64(m.CreatedAt))
	dst = appendMillis(appendMillis(dst, m.CompletedAt), m.RollbackCompletedAt)
	return appendText(dst, m.RollbackError)
}

func appendText(dst []byte, s *string) []byte {
	if dst = bare.AppendBool(dst, s != nil); s == nil {
		return dst
	}
	return bare.AppendString(dst, *s)
}

func appendValue(dst, v []byte) []byte {
	if dst = bare.AppendBool(dst, v != nil); v == nil {
		return dst
	}
	return bare.AppendData(dst, v)
}

func appendMillis(dst []byte, m *Millis) []byte {
	if dst = bare.AppendBool(dst, m != nil); m == nil {
		return dst
	}
	return bare.AppendU64(dst, uint64(*m))
}

// parseEntry decodes the stored form of an entry into memory of its own.
func parseEntry(b []byte) (Entry, error) {
	r, err := reader(b)
	if err != nil {
		return Entry{}, err
	}
	e := readEntry(r)
	return e, done(r)
}

// parseMetadata decodes the stored form of metadata.
func parseMetadata(b []byte) (*Metadata, error) {
	r, err := reader(b)
	if err != nil {
		return nil, err
	}
	m := readMetadata(r)
	return m, done(r)
}

// reader returns a reader of what is behind the version.
func reader(b []byte) (*bare.Reader, error) {
	v, body, err := bare.Version(b)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	case v > formatVersion:
		return nil, fmt.Errorf("%w: version %d", errNewerFormat, v)
	case v != formatVersion:
		return nil, fmt.Errorf("%w: version %d", errCorrupt, v)
	}
	return bare.NewReader(body), nil
}

func done(r *bare.Reader) error {
	if err := r.Done(); err != nil {
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return nil
}

// readEntry reads an entry. After an error of r it may have no kind.
func readEntry(r *bare.Reader) Entry {
	e := Entry{ID: r.String()}
	var buf [64]byte // most locations fit
	packed := buf[:0]
	for range r.Len(math.MaxInt) {
		if r.Tag(2) == 0 {
			packed = actorstore.AppendWorkflowSegment(packed, r.U32())
		} else {
			loop := r.U32()
			packed = actorstore.AppendWorkflowIteration(packed, loop, r.U32())
		}
	}
	e.Location = Location(packed)
	e.Kind = readKind(r)
	return e
}

func readKind(r *bare.Reader) Kind {
	switch tag(r.Tag(int(tags))) {
	case tagStep:
		return Step{Output: readValue(r), Error: readText(r)}
	case tagLoop:
		return Loop{State: r.DataCopy(), Iteration: r.U32(), Output: readValue(r)}
	case tagSleep:
		return Sleep{Deadline: Millis(r.U64()), State: SleepState(r.Tag(len(sleepStates)))}
	case tagMessage:
		return Message{Name: r.String(), Data: r.DataCopy()}
	case tagCheckpoint:
		return Checkpoint{Name: r.String()}
	case tagJoin:
		return Join{Branches: readBranches(r)}
	case tagRace:
		return Race{Winner: readText(r), Branches: readBranches(r)}
	case tagRemoved:
		return Removed{Original: r.String(), Name: readText(r)}
	default:
		return Version{Resolved: r.U32(), Latest: r.U32()}
	}
}

func readBranches(r *bare.Reader) []Branch {
	n := r.Len(math.MaxInt)
	branches := make([]Branch, 0, min(n, 64))
	seen := make(map[string]bool, min(n, 64))
	for range n {
		b := Branch{Name: r.String(), Status: BranchStatus(r.Tag(len(branchStatuses)))}
		b.Output, b.Error = readValue(r), readText(r)
		if seen[b.Name] {
			r.Fail("branch %q comes twice", b.Name)
		}
		if r.Err() != nil {
			return nil
		}
		seen[b.Name] = true
		branches = append(branches, b)
	}
	return branches
}

func readMetadata(r *bare.Reader) *Metadata {
	m := &Metadata{Status: Status(r.Tag(len(statuses))), Error: readText(r), Attempts: r.U32()}
	m.LastAttemptAt, m.CreatedAt = Millis(r.U64()), Millis(r.U64())
	m.CompletedAt, m.RollbackCompletedAt = readMillis(r), readMillis(r)
	m.RollbackError = readText(r)
	return m
}

func readText(r *bare.Reader) *string {
	if !r.Bool() {
		return nil
	}
	return new(r.String())
}

func readValue(r *bare.Reader) []byte {
	if !r.Bool() {
		return nil
	}
	return r.DataCopy()
}

func readMillis(r *bare.Reader) *Millis {
	if !r.Bool() {
		return nil
	}
	return new(Millis(r.U64()))
}
