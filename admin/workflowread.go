package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/workflow"
)

// A Workflow is a workflow in words, with a page of its history. In a value bytes are in base64, and undefined is null.
type Workflow struct {
	State   string           `json:"state"`
	Stuck   bool             `json:"stuck,omitempty"` // nothing that comes by itself wakes it
	Waits   []WorkflowWait   `json:"waits,omitempty"`
	Input   json.RawMessage  `json:"input,omitempty"`
	Output  json.RawMessage  `json:"output,omitempty"`
	Error   *WorkflowError   `json:"error,omitempty"`
	Entries []*WorkflowEntry `json:"entries"`
	Next    string           `json:"next,omitempty"` // after of the next page of entries; "" on the last one
	Damages []WorkflowDamage `json:"damages,omitempty"`
}

// A WorkflowWait is a thing that a workflow waits for.
type WorkflowWait struct {
	For   string   `json:"for"`
	Path  string   `json:"path,omitempty"`
	Since Time     `json:"since,omitempty"`
	Until Time     `json:"until,omitempty"`
	Names []string `json:"names,omitempty"` // of the message
	Error string   `json:"error,omitempty"` // of the last attempt at the step
}

// A WorkflowError is why a workflow has failed.
type WorkflowError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// A WorkflowDamage is a key that can't be read.
type WorkflowDamage struct {
	Key      string `json:"key"` // in words
	Problem  string `json:"problem"`
	Harmless bool   `json:"harmless"`
}

// A WorkflowEntry is a place in the code of a workflow, with what is recorded of it.
type WorkflowEntry struct {
	Path      string          `json:"path"`
	ID        string          `json:"id,omitempty"` // of an entry
	Kind      string          `json:"kind"`
	Status    string          `json:"status,omitempty"`
	Attempts  *uint32         `json:"attempts,omitempty"`
	Created   Time            `json:"created,omitempty"`
	Completed Time            `json:"completed,omitempty"`
	Undone    Time            `json:"undone,omitempty"`
	Iteration *uint32         `json:"iteration,omitempty"` // of a loop
	Value     json.RawMessage `json:"value,omitempty"`
	Bytes     []byte          `json:"bytes,omitempty"` // a value that is neither CBOR nor JSON
	Error     string          `json:"error,omitempty"`

	Text     string `json:"-"`               // Value, if that is a text that isn't stored as one
	Recorded bool   `json:"-"`               // it is an entry or a branch, and not only what is around others
	Label    string `json:"label,omitempty"` // the end of Path, behind that of the place around it
	Depth    int    `json:"depth"`           // how many places are around it

	inside []*WorkflowEntry
	place  string // texts that sort as the entries of a history do, and stay when others come and go
}

func workflowReads() []route {
	return []route{readActor("/workflow", "Show the workflow of an actor: its state, what it waits for, and its history.", []param{
		{name: "entry", kind: "string", what: "The id of an entry: of the pages behind after that one which has it, if there is one."}, afterParam, limitParam},
		func(_ context.Context, v *greenroom.View, q *query) (*Workflow, error) {
			limit, err := q.limit()
			if err != nil {
				return nil, err
			}
			after, err := hex.DecodeString(q.text("after"))
			if err != nil {
				return nil, invalid("after is not the next of the entries of a workflow")
			}
			s, damages, err := v.Workflow()
			if err != nil {
				return nil, err
			}
			if s.Empty() && len(damages) == 0 {
				return nil, &Error{Code: "not_found", Message: "the actor " + q.actor + " has no workflow"}
			}
			w := NewWorkflow(s, WorkflowEntries(s), damages)
			w.cut(string(after), q.text("entry"), limit)
			return w, nil
		})}
}

// cut leaves what an answer may have of what is behind a place; "" is before all. If the entry with an id is there, that is the page which has it, and else the first.
func (w *Workflow) cut(after, id string, limit int) {
	w.Entries = slices.DeleteFunc(w.Entries, func(e *WorkflowEntry) bool { return e.place <= after })
	at := slices.IndexFunc(w.Entries, func(e *WorkflowEntry) bool { return id != "" && e.ID == id })
	begin, size := 0, 0
	for i, e := range w.Entries {
		bytes := len(e.Value) + len(e.Bytes) + len(e.Error)
		if size += bytes; i-begin < limit && (size <= readBytes || i == begin) {
			continue
		}
		if i > at {
			w.Next = hex.EncodeToString([]byte(w.Entries[i-1].place))
			w.Entries = w.Entries[:i]
			break
		}
		begin, size = i, bytes
	}
	w.Entries = w.Entries[begin:]
	w.Damages = w.Damages[:min(len(w.Damages), maxLimit)]
}

// NewWorkflow returns what s says, with those of its entries that are recorded.
func NewWorkflow(s *workflow.Snapshot, entries []*WorkflowEntry, damages []workflow.Damage) *Workflow {
	w := &Workflow{State: s.State.String(), Stuck: s.Stuck(), Input: codedJSON(s.Input), Output: codedJSON(s.Output), Entries: []*WorkflowEntry{}}
	if s.Error != nil {
		w.Error = &WorkflowError{s.Error.Name, s.Error.Message, s.Error.Stack}
	}
	for _, wait := range s.Waits() {
		w.Waits = append(w.Waits, WorkflowWait{wait.For.String(), wait.Path, newMillis(wait.Since), newMillis(wait.Until), wait.Names, wait.Error})
	}
	for _, e := range entries {
		if e.Recorded {
			w.Entries = append(w.Entries, e)
		}
	}
	for _, d := range damages {
		text := d.Err.Error()
		if errors.Is(d.Err, actorstore.ErrCorrupt) {
			text = strings.TrimPrefix(text, actorstore.ErrCorrupt.Error()+": ")
		}
		w.Damages = append(w.Damages, WorkflowDamage{actorstore.Describe(d.Key), text, d.Harmless})
	}
	return w
}

// codedJSON is a stored value in JSON; its bytes in base64, as a text, if JSON cannot hold it; nil for nil.
func codedJSON(v []byte) json.RawMessage {
	if v == nil {
		return nil
	}
	if j := fromStored(v); j != nil {
		return j
	}
	return toJSON(v)
}

// newMillis is a time that a workflow has recorded; "" for 0.
func newMillis(m workflow.Millis) Time {
	if m == 0 {
		return ""
	}
	return NewTime(m.Time())
}

// record fills in what an entry says.
func (w *WorkflowEntry) record(e *workflow.Entry) {
	w.ID, w.Kind, w.Recorded = e.ID, e.Type(), true
	w.ofKind(e.Kind)
	w.ofMetadata(e.Metadata)
}

// stored sets a value that is stored, nil for none.
func (w *WorkflowEntry) stored(v []byte) {
	if v == nil {
		return
	}
	if w.Value = fromStored(v); w.Value == nil {
		w.Bytes = v
	}
}

// words sets a value that isn't stored as a text, "" for none.
func (w *WorkflowEntry) words(text string) {
	if w.Text = text; text != "" {
		w.Value = toJSON(text)
	}
}

// ofKind fills in what the kind of an entry says.
func (w *WorkflowEntry) ofKind(kind workflow.Kind) {
	switch k := kind.(type) {
	case workflow.StepEntry:
		w.Error = textOf(k.Error)
		w.stored(k.Output)
	case workflow.LoopEntry:
		w.Iteration = &k.Iteration
		if w.stored(k.State); k.Output != nil {
			w.Bytes = nil
			w.stored(k.Output)
		}
	case workflow.SleepEntry:
		w.Status = k.State.String()
		w.words(string(NewTime(k.Deadline.Time())))
	case workflow.MessageEntry:
		w.stored(k.Data)
	case workflow.RaceEntry:
		w.words(textOf(k.Winner))
	case workflow.RemovedEntry:
		w.words(strings.TrimSpace(k.Original + " " + textOf(k.Name)))
	case workflow.VersionEntry:
		w.words(fmt.Sprintf("%d of %d", k.Resolved, k.Latest))
	}
}

// ofMetadata fills in how the entry got on.
func (w *WorkflowEntry) ofMetadata(m *workflow.Metadata) {
	if m == nil {
		return
	}
	if w.Status == "" || m.Status == workflow.StatusFailed || m.Status == workflow.StatusExhausted {
		w.Status = m.Status.String()
	}
	w.Created = newMillis(m.CreatedAt)
	if m.Attempts > 0 {
		w.Attempts = &m.Attempts
	}
	if w.Error == "" {
		w.Error = textOf(m.Error)
	}
	if m.CompletedAt != nil {
		w.Completed = NewTime(m.CompletedAt.Time())
	}
	if m.RollbackCompletedAt != nil {
		w.Status, w.Undone = "undone", NewTime(m.RollbackCompletedAt.Time())
	}
	if m.RollbackError != nil {
		w.Error = strings.TrimSpace(w.Error + " undo: " + *m.RollbackError)
	}
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
