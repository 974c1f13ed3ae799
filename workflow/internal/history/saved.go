package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A saved is a Snapshot in JSON.
type saved struct {
	Format  string                    `json:"format"`
	State   string                    `json:"state"`
	Input   *[]byte                   `json:"input,omitempty"`
	Output  *[]byte                   `json:"output,omitempty"`
	Error   *savedFailure             `json:"error,omitempty"`
	Names   []string                  `json:"names"`
	Entries []savedEntry              `json:"entries"`
	Waits   *[]Wait                   `json:"waits,omitempty"` // as recorded
	Orphans map[string]*savedMetadata `json:"orphans,omitempty"`
}

// savedFormat says what a file is, and in which version.
const savedFormat = "greenroom workflow history 1"

// A savedFailure is a Failure. Value is what is stored, the rest for people.
type savedFailure struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Value   []byte `json:"value"`
}

// A savedEntry is an Entry. Path is for people.
type savedEntry struct {
	Path     string         `json:"path"`
	ID       string         `json:"id"`
	Location []savedSegment `json:"location"`
	Type     string         `json:"type"`
	savedKind
	Metadata *savedMetadata `json:"metadata,omitempty"`
}

// A savedKind is a Kind of any Type: which members there are depends on that.
type savedKind struct {
	Name      *string       `json:"name,omitempty"`
	Original  string        `json:"original,omitempty"`
	Winner    *string       `json:"winner,omitempty"`
	Deadline  Millis        `json:"deadline,omitempty"`
	Status    string        `json:"status,omitempty"`
	Iteration uint32        `json:"iteration,omitempty"`
	State     *[]byte       `json:"state,omitempty"`
	Data      *[]byte       `json:"data,omitempty"`
	Output    *[]byte       `json:"output,omitempty"`
	Error     *string       `json:"error,omitempty"`
	Resolved  uint32        `json:"resolved,omitempty"`
	Latest    uint32        `json:"latest,omitempty"`
	Branches  []savedBranch `json:"branches,omitempty"`
}

type savedBranch struct {
	Name   string  `json:"name"`
	Status string  `json:"status"`
	Output *[]byte `json:"output,omitempty"`
	Error  *string `json:"error,omitempty"`
}

type savedMetadata struct {
	Status              string  `json:"status"`
	Error               *string `json:"error,omitempty"`
	Attempts            uint32  `json:"attempts"`
	LastAttemptAt       Millis  `json:"lastAttemptAt"`
	CreatedAt           Millis  `json:"createdAt"`
	CompletedAt         *Millis `json:"completedAt,omitempty"`
	RollbackCompletedAt *Millis `json:"rollbackCompletedAt,omitempty"`
	RollbackError       *string `json:"rollbackError,omitempty"`
}

// A savedWait is a Wait in JSON.
type savedWait struct {
	For   string   `json:"for"`
	Path  string   `json:"path,omitempty"`
	Since Millis   `json:"since,omitempty"`
	Until Millis   `json:"until,omitempty"`
	Names []string `json:"names,omitempty"`
	Error string   `json:"error,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (w Wait) MarshalJSON() ([]byte, error) {
	return json.Marshal(savedWait{w.For.String(), w.Path, w.Since, w.Until, w.Names, w.Error})
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Wait) UnmarshalJSON(b []byte) error {
	var in savedWait
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	kind, err := parseWord(in.For, waitKinds[:])
	*w = Wait{WaitKind(kind), in.Path, in.Since, in.Until, in.Names, in.Error}
	return err
}

// A savedSegment is the index of a name, or {loop, iteration}.
type savedSegment segment

type savedMarker struct {
	Loop      NameIndex `json:"loop"`
	Iteration uint32    `json:"iteration"`
}

// MarshalJSON implements json.Marshaler.
func (s savedSegment) MarshalJSON() ([]byte, error) {
	if s.Loop {
		return json.Marshal(savedMarker{s.Name, s.Iteration})
	}
	return json.Marshal(s.Name)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *savedSegment) UnmarshalJSON(b []byte) error {
	var m savedMarker
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &m)
		*s = savedSegment{Name: m.Loop, Loop: true, Iteration: m.Iteration}
		return err
	}
	*s = savedSegment{}
	return json.Unmarshal(b, &s.Name)
}

// MarshalJSON returns s in a form to be kept in a file, which holds everything: values are
// in base64, and each entry has its path beside it, for people.
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	out := saved{Format: savedFormat, State: s.State.String(), Input: keep(s.Input), Output: keep(s.Output),
		Names: s.Names, Entries: make([]savedEntry, 0, len(s.Entries))}
	if s.Error != nil {
		value, err := s.Error.encode()
		if err != nil {
			return nil, err
		}
		out.Error = &savedFailure{s.Error.Name, s.Error.Message, value}
	}
	if s.Rested != nil {
		out.Waits = &s.Rested
	}
	for _, e := range s.Entries {
		var at []savedSegment
		for seg := range e.Location.segments() {
			at = append(at, savedSegment(seg))
		}
		out.Entries = append(out.Entries, savedEntry{s.Path(e.Location), e.ID, at, e.Type(), saveKind(e.Kind), saveMetadata(e.Metadata)})
	}
	for id, m := range s.Orphans {
		if out.Orphans == nil {
			out.Orphans = map[string]*savedMetadata{}
		}
		out.Orphans[id] = saveMetadata(m)
	}
	return json.Marshal(out)
}

// keep tells a value that is empty from one that is missing.
func keep(v []byte) *[]byte {
	if v == nil {
		return nil
	}
	return &v
}

// kept is the reverse of keep.
func kept(v *[]byte) []byte {
	if v == nil {
		return nil
	}
	return present(*v)
}

func saveKind(kind Kind) savedKind {
	switch k := kind.(type) {
	case Step:
		return savedKind{Output: keep(k.Output), Error: k.Error}
	case Loop:
		return savedKind{State: keep(k.State), Iteration: k.Iteration, Output: keep(k.Output)}
	case Sleep:
		return savedKind{Deadline: k.Deadline, Status: k.State.String()}
	case Message:
		return savedKind{Name: &k.Name, Data: keep(k.Data)}
	case Checkpoint:
		return savedKind{Name: &k.Name}
	case Join:
		return savedKind{Branches: saveBranches(k.Branches)}
	case Race:
		return savedKind{Winner: k.Winner, Branches: saveBranches(k.Branches)}
	case Removed:
		return savedKind{Original: k.Original, Name: k.Name}
	case Version:
		return savedKind{Resolved: k.Resolved, Latest: k.Latest}
	}
	panic(fmt.Sprintf("history: kind %T", kind))
}

func saveBranches(branches []Branch) (out []savedBranch) {
	for _, b := range branches {
		out = append(out, savedBranch{b.Name, b.Status.String(), keep(b.Output), b.Error})
	}
	return out
}

func saveMetadata(m *Metadata) *savedMetadata {
	if m == nil {
		return nil
	}
	return &savedMetadata{m.Status.String(), m.Error, m.Attempts, m.LastAttemptAt, m.CreatedAt, m.CompletedAt,
		m.RollbackCompletedAt, m.RollbackError}
}

// UnmarshalJSON reads what MarshalJSON makes. Paths, and what is for people, are not
// looked at. What makes no sense, as an entry with a name that is missing, is errInvalid.
func (s *Snapshot) UnmarshalJSON(b []byte) error {
	var in saved
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("%w history: %w", errInvalid, err)
	}
	if in.Format != savedFormat {
		return fmt.Errorf("%w history: format %.80q", errInvalid, in.Format)
	}
	out, err := in.load()
	if err != nil {
		return fmt.Errorf("%w history: %w", errInvalid, err)
	}
	*s = *out
	return nil
}

func (in *saved) load() (*Snapshot, error) {
	s := &Snapshot{Input: kept(in.Input), Output: kept(in.Output), Names: in.Names}
	var err error
	if s.State, err = parseState(in.State); err != nil {
		return nil, err
	}
	if in.Waits != nil {
		s.Rested = *in.Waits
	}
	if in.Error != nil {
		if s.Error, err = parseFailure(in.Error.Value); err != nil {
			return nil, err
		}
	}
	for i := range in.Entries {
		e, err := in.Entries[i].load(len(in.Names))
		if err != nil {
			return nil, fmt.Errorf("entry %.80q: %w", in.Entries[i].ID, err)
		}
		s.Entries = append(s.Entries, e)
	}
	slices.SortStableFunc(s.Entries, byLocation)
	for id, m := range in.Orphans {
		if s.Orphans == nil {
			s.Orphans = map[string]*Metadata{}
		}
		if s.Orphans[id], err = m.load(); err != nil || m == nil {
			return nil, fmt.Errorf("metadata %.80q: %w", id, cmp.Or(err, errNothing))
		}
	}
	return s, nil
}

var errNothing = errors.New("nothing there")

func (in *savedEntry) load(names int) (e Entry, err error) {
	e.ID = in.ID
	for _, s := range in.Location {
		if int64(s.Name) >= int64(names) {
			return e, fmt.Errorf("there is no name %d", s.Name)
		}
		if s.Loop {
			e.Location = e.Location.Iteration(s.Name, s.Iteration)
		} else {
			e.Location = e.Location.Name(s.Name)
		}
	}
	if e.Kind, err = in.savedKind.load(in.Type); err == nil {
		e.Metadata, err = in.Metadata.load()
	}
	return e, err
}

func (in *savedKind) load(kind string) (Kind, error) {
	switch tag(slices.Index(typeNames[:], kind)) {
	case tagStep:
		return Step{kept(in.Output), in.Error}, nil
	case tagLoop:
		return Loop{present(kept(in.State)), in.Iteration, kept(in.Output)}, nil
	case tagSleep:
		state, err := parseWord(in.Status, sleepStates[:])
		return Sleep{in.Deadline, SleepState(state)}, err
	case tagMessage:
		return Message{text(in.Name), present(kept(in.Data))}, nil
	case tagCheckpoint:
		return Checkpoint{text(in.Name)}, nil
	case tagJoin:
		branches, err := loadBranches(in.Branches)
		return Join{branches}, err
	case tagRace:
		branches, err := loadBranches(in.Branches)
		return Race{in.Winner, branches}, err
	case tagRemoved:
		return Removed{in.Original, in.Name}, nil
	case tagVersion:
		return Version{in.Resolved, in.Latest}, nil
	}
	return nil, fmt.Errorf("type %.80q", kind)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func loadBranches(in []savedBranch) ([]Branch, error) {
	out := make([]Branch, 0, len(in))
	for _, b := range in {
		status, err := parseWord(b.Status, branchStatuses[:])
		if err != nil {
			return nil, err
		}
		out = append(out, Branch{b.Name, BranchStatus(status), kept(b.Output), b.Error})
	}
	return out, nil
}

func (in *savedMetadata) load() (*Metadata, error) {
	if in == nil {
		return nil, nil
	}
	status, err := parseWord(in.Status, statuses[:])
	return &Metadata{Status(status), in.Error, in.Attempts, in.LastAttemptAt, in.CreatedAt, in.CompletedAt,
		in.RollbackCompletedAt, in.RollbackError}, err
}

// parseWord returns which of the words of an enumeration a text is.
func parseWord(text string, words []string) (uint8, error) {
	i := slices.Index(words, text)
	if i < 0 {
		return 0, fmt.Errorf("%.80q is none of %q", text, words)
	}
	return uint8(i), nil
}
