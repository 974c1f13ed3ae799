package actorstore

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
)

// Usage is what an actor used since its creation, as far as its host stored that; a fork begins at nothing. Its counts never fall.
type Usage struct {
	Turns   int64         // that were run, those that failed included
	Awake   time.Duration // in memory, in whole milliseconds
	Written int64         // bytes of keys and values that went to the engine, with the store's own rows
	Rows    int64         // rows that statements of SQL returned, or those of their full scans if these are more
	// Failures are the turns that failed, by how and where, in no order; at most MaxFailures.
	Failures []Failure
}

// A Failure is turns that have failed in the same way.
type Failure struct {
	Code  string    // the word for the error, of at most MaxFailureText bytes
	Place string    // what failed, an action for instance, likewise; "" with the Code CodeOther
	Count int64     // how often
	Last  time.Time // when it did so last, in whole milliseconds
}

// An ActorUsage is what one actor has used.
type ActorUsage struct {
	ID   ID
	Name string
	Usage
}

// Bounds of the failures of an actor. Of more than MaxFailures ways the one that is the longest ago is counted under CodeOther.
const (
	MaxFailures    = 16
	MaxFailureText = 64
	CodeOther      = "other"
)

// Failed returns how many turns have failed.
func (u *Usage) Failed() (n int64) {
	for i := range u.Failures {
		n += u.Failures[i].Count
	}
	return n
}

// IsZero reports whether nothing was used.
func (u *Usage) IsZero() bool {
	return u.Turns == 0 && u.Awake == 0 && u.Written == 0 && u.Rows == 0 && len(u.Failures) == 0
}

// Add adds what o says to u, which shares nothing with o then.
func (u *Usage) Add(o *Usage) {
	u.Turns, u.Written, u.Rows = u.Turns+o.Turns, u.Written+o.Written, u.Rows+o.Rows
	u.Awake = min(u.Awake, math.MaxInt64-o.Awake) + o.Awake
	for _, f := range o.Failures {
		u.Fail(f)
	}
}

// Fail adds failures of one kind. Texts that are too long are cut, and what isn't UTF-8 in them is replaced.
func (u *Usage) Fail(f Failure) {
	f.Code, f.Place = short(f.Code), short(f.Place)
	same := func(o Failure) bool { return o.Code == f.Code && o.Place == f.Place }
	if i := slices.IndexFunc(u.Failures, same); i >= 0 {
		u.Failures[i].add(&f)
		return
	}
	if len(u.Failures) < MaxFailures {
		u.Failures = append(u.Failures, f)
		return
	}
	// The one that is the longest ago, and isn't the rest, makes room and becomes a part of the rest.
	rest := slices.IndexFunc(u.Failures, func(o Failure) bool { return o.Code == CodeOther && o.Place == "" })
	if rest < 0 {
		rest = u.oldest(-1)
		u.Failures[rest].Code, u.Failures[rest].Place = CodeOther, ""
	}
	i := u.oldest(rest)
	if u.Failures[i].Last.After(f.Last) {
		u.Failures[rest].add(&f)
		return
	}
	u.Failures[rest].add(&u.Failures[i])
	u.Failures[i] = f
}

// oldest returns the index of the failure that is the longest ago, but for the one at but.
func (u *Usage) oldest(but int) (at int) {
	at = -1
	for i := range u.Failures {
		if i != but && (at < 0 || cmp.Or(u.Failures[i].Last.Compare(u.Failures[at].Last), cmp.Compare(u.Failures[i].Count, u.Failures[at].Count)) < 0) {
			at = i
		}
	}
	return at
}

// add counts o as f.
func (f *Failure) add(o *Failure) {
	f.Count += o.Count
	if o.Last.After(f.Last) {
		f.Last = o.Last
	}
}

// short returns s as a failure has it: valid UTF-8, as all texts in rows, and cut where it is too long.
func short(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxFailureText {
		return s
	}
	n := 0
	for i := range s {
		if i > MaxFailureText {
			break
		}
		n = i
	}
	return s[:n]
}

// usageOf returns what a row says, nothing if it can't be read: what was counted is of less worth than the actor. A check tells of it.
func usageOf(id ID, row []byte) (u Usage) {
	if row == nil {
		return u
	}
	at, err := layout.ParseUsage(layout.ID(id), row)
	if err != nil {
		return u
	}
	u = Usage{Turns: int64(at.Turns), Awake: time.Duration(at.Awake) * time.Millisecond, Written: int64(at.Written), Rows: int64(at.Rows)}
	for _, f := range at.Failures {
		u.Fail(Failure{f.Code, f.Place, int64(f.Count), time.UnixMilli(f.Last)})
	}
	return u
}

// row returns what is stored for u. A clock that jumps may have made an actor awake for longer than can be said.
func (u *Usage) row() []byte {
	awake := min(u.Awake.Milliseconds(), layout.MaxAwake)
	at := layout.Usage{Turns: uint64(u.Turns), Awake: uint64(awake), Written: uint64(u.Written), Rows: uint64(u.Rows)}
	for _, f := range u.Failures {
		at.Failures = append(at.Failures, layout.Failure{Code: f.Code, Place: f.Place, Count: uint64(f.Count), Last: f.Last.UnixMilli()})
	}
	return at.Append(nil)
}

// spent is what a handle knows of what its actor uses.
type spent struct {
	usage   atomic.Pointer[[]byte] // the row, as the newest applied commit left it; nil for none
	more    *Usage                 // what StageUsage adds in the commit that is being made; the commit lock guards it
	written atomic.Int64           // bytes that went to the engine
	rows    atomic.Int64           // that SQL has read
}

// recall takes the row that is stored, nil for none.
func (s *spent) recall(row []byte) {
	s.usage.Store(nil) // of an actor that was dropped while its next owner waited
	if row != nil {
		s.usage.Store(&row)
	}
}

// Written returns how many bytes of keys and values of this handle's commits went to the engine, with the store's own rows.
func (s *spent) Written() int64 { return s.written.Load() }

// Rows returns how many rows statements of SQL have read through this handle; see Usage.
func (s *spent) Rows() int64 { return s.rows.Load() }

// ReadRows counts n of them. It is for package vfs.
func (s *spent) ReadRows(n int64) { s.rows.Add(n) }

// StageUsage adds to what is stored of the actor's usage, with b: what more returns when b is committed, under the actor's commit lock. With a
// zero Usage nothing is written; else an actor that doesn't exist is made by it. It may be called while b is open. Of an Ordered batch it lands with the first
// part, also if a later one fails and no OnCommit function is called.
func (s *spent) StageUsage(b *batch.Batch, more func() Usage) {
	b.Late(func(*batch.Batch) error {
		if u := more(); !u.IsZero() {
			if s.more != nil {
				u.Add(s.more)
			}
			s.more = &u
		}
		return nil
	})
}
