package history

// An Entry is one thing that a workflow did or waits for, at its place in the code.
type Entry struct {
	// ID names the entry for ever, a UUID in text; Tx.Put gives one to an entry without.
	// It must be valid UTF-8 and no other entry's.
	ID       string
	Location Location // not the root
	Kind     Kind
	// Metadata is how the entry got on, nil if nothing is recorded. It must not be changed:
	// Tx.PutMetadata does that, and Tx.Put ignores it.
	Metadata *Metadata
}

// Type is the name of the entry's Kind, which must not be nil, as Removed.Original has it: "step",
// "loop", "sleep", "message", "rollback_checkpoint", "join", "race", "removed" or "version_check".
func (e Entry) Type() string { return typeNames[e.Kind.kind()] }

// A Status says how far an entry has come.
type Status uint8

// The statuses of an entry.
const (
	StatusPending Status = iota
	StatusRunning
	StatusCompleted
	StatusFailed    // and is tried again
	StatusExhausted // and is not
)

// String returns "pending", "running", "completed", "failed" or "exhausted".
func (s Status) String() string { return word(s, statuses[:]) }

var statuses = [...]string{"pending", "running", "completed", "failed", "exhausted"}

// A Metadata is how an entry got on.
type Metadata struct {
	Status              Status
	Error               *string // of the last attempt
	Attempts            uint32
	LastAttemptAt       Millis // 0: never
	CreatedAt           Millis
	CompletedAt         *Millis
	RollbackCompletedAt *Millis // when what the entry did had been undone
	RollbackError       *string // why that went wrong
}

// equalMetadata reports whether a and b are stored as the same bytes.
func equalMetadata(a, b *Metadata) bool {
	return a.Status == b.Status && a.Attempts == b.Attempts && a.LastAttemptAt == b.LastAttemptAt && a.CreatedAt == b.CreatedAt &&
		equal(a.Error, b.Error) && equal(a.CompletedAt, b.CompletedAt) && equal(a.RollbackCompletedAt, b.RollbackCompletedAt) &&
		equal(a.RollbackError, b.RollbackError)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
