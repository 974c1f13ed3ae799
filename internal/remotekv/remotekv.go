// Package remotekv is an engine that another process has open, reached over a connection: the process
// serves it with Serve, and Open returns it as a kv.Engine with its transactions. It is how the commands of
// the program read a store that a host has.
//
// One connection serves one thing at a time: a snapshot, an attempt at a transaction, or single calls one
// after the other. What a connection has pinned goes with it, so that a client that is killed leaves nothing
// behind. Requests and answers are values of encoding/gob.
//
// It is not a server for strangers: Serve trusts its peer with every byte of the store, and the caller
// decides which peers there may be.
package remotekv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A verb says what a request asks for.
type verb uint8

const (
	hello verb = iota // the limits of the engine, and what its transactions can do
	get
	scan
	pin    // what follows reads one state
	begin  // an attempt at a transaction, which reads one state too
	unpin  // ends both
	commit // of the engine, or of the attempt
	outcome
	durable
	size
	space
)

// pageBytes bounds the keys and values of one answer to a scan, but for its first entry.
const pageBytes = 256 << 10

// A request is one call. A nil slice and an empty one are the same to encoding/gob, so bounds say beside
// themselves whether they are there.
type request struct {
	Verb   verb
	Key    []byte
	Range  span
	Limit  int
	Back   bool
	Commit *change
	ID     kv.CommitID
	// MaxAge and ReadOnly are of an attempt.
	MaxAge   time.Duration
	ReadOnly bool
}

// A span is a range of keys, [Start, End), up to the last key if it is Open.
type span struct {
	Start, End []byte
	Open       bool
}

func newSpan(start, end []byte) span { return span{start, end, end == nil} }

// bounds returns the range as kv and txn write it.
func (s span) bounds() (start, end []byte) {
	if !s.Open && s.End == nil {
		return s.Start, []byte{}
	}
	return s.Start, s.End
}

// A change is a commit, of the engine or of a transaction.
type change struct {
	ID      kv.CommitID
	Checks  []kv.Check
	Ops     []txn.Op
	In      kv.Incarnation
	Applied bool // it doesn't wait for stable storage
	Reads   []span
	Own     []span // of Reads, those that were declared
	Writes  []span
}

// An answer is what became of a request.
type answer struct {
	Failed  *failure
	Found   bool
	Value   []byte
	Entries []kv.Entry
	More    bool // a scan goes on behind the last entry
	Stamp   txn.Stamp
	Outcome kv.Outcome
	Size    int64
	Limits  kv.Limits
	Caps    txn.Caps
}

// A failure is an error on its way.
type failure struct {
	Text string
	// Kinds are the places in kinds of what it is.
	Kinds  []int
	Format *kv.FormatError
}

// kinds are the errors that keep their identity on the way. Their order is part of the protocol.
var kinds = []error{
	kv.ErrNotFound, kv.ErrConflict, kv.ErrIncarnation, kv.ErrTooLarge, kv.ErrInvalid, kv.ErrNotApplied, kv.ErrUnknownOutcome,
	kv.ErrPoisoned, kv.ErrClosed, kv.ErrCorrupt, kv.ErrUnsupported, txn.ErrTooOld, errkind.ErrNoSpace, errkind.ErrReadOnly,
	context.Canceled, context.DeadlineExceeded,
}

// newFailure returns err as it is sent, nil for nil.
func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			f.Kinds = append(f.Kinds, i)
		}
	}
	if errors.As(err, &f.Format) {
		f.Text = ""
	}
	return f
}

// err returns the error that f stands for.
func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.Format != nil:
		return f.Format
	}
	e := &remoteError{text: f.Text}
	for _, i := range f.Kinds {
		if i >= 0 && i < len(kinds) {
			e.kinds = append(e.kinds, kinds[i])
		}
	}
	return e
}

// A remoteError is an error of the engine that is served.
type remoteError struct {
	text  string
	kinds []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.kinds }

// lost says that the other end is gone, which its engine knows nothing of.
func lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("remotekv: the process that has the store doesn't answer any more: %w", err)
}

// spans returns spans of a transaction as they are sent.
func spans(list []txn.Span) (sent []span) {
	for _, s := range list {
		sent = append(sent, newSpan(s.Start, s.End))
	}
	return sent
}

// unsent is the opposite of spans.
func unsent(sent []span) (list []txn.Span) {
	for _, s := range sent {
		start, end := s.bounds()
		list = append(list, txn.Span{Start: start, End: end})
	}
	return list
}
