package history

// A Kind is what an entry records: one of Step, Loop, Sleep, Message, Checkpoint, Join,
// Race, Removed and Version, as values. The bytes and slices in them are shared between
// the history and its callers, and must never be changed: to change an entry, put
// another one in its place.
//
// Where a text or a value may be missing it is a pointer, or a slice, that is nil then.
// Values are encoded as the workflow's codec does it, and opaque here; an empty value is
// not nil, and is not missing.
type Kind interface{ kind() tag }

// A Step is a piece of work with a result. Whether it completed is said by the entry's
// metadata alone: a step without output has none here either.
type Step struct {
	Output []byte
	Error  *string // of the last attempt
}

// A Loop is repeated until it has an output.
type Loop struct {
	State     []byte // with which the iteration begins
	Iteration uint32 // the one that runs, or runs next
	Output    []byte // nil while it runs; and for the output of a loop that has none
}

// A Sleep is a point in time that is waited for.
type Sleep struct {
	Deadline Millis
	State    SleepState
}

// A SleepState says what became of a Sleep.
type SleepState uint8

// The states of a Sleep.
const (
	SleepPending SleepState = iota
	SleepCompleted
	SleepInterrupted // something else came first
)

// A Message is a received message, or the number of those that were received together.
type Message struct {
	Name string
	Data []byte
}

// A Checkpoint is the place in the code from which on what was done is undone if the
// workflow fails.
type Checkpoint struct{ Name string }

// A Join is branches that are all waited for.
type Join struct{ Branches []Branch }

// A Race is branches of which the first to succeed wins.
type Race struct {
	Winner   *string // the name of a branch
	Branches []Branch
}

// A Branch is one of a Join's or a Race's. Their names are different, and their order is
// kept.
type Branch struct {
	Name   string
	Status BranchStatus
	Output []byte
	Error  *string
}

// A BranchStatus says how far a Branch has come.
type BranchStatus uint8

// The statuses of a Branch.
const (
	BranchPending BranchStatus = iota
	BranchRunning
	BranchCompleted
	BranchFailed
	BranchCancelled
)

// A Removed stands for an entry whose code is gone.
type Removed struct {
	Original string  // the Type of the Entry that was there
	Name     *string // of what was there
}

// A Version is which version of its code a workflow goes on with at this place. It came
// later than the other kinds: programs that read this format and are older don't know it.
type Version struct {
	Resolved uint32 // the version to go on with, from 1
	Latest   uint32 // the version that the code had
}

// The tags of kinds, as stored.
type tag uint8

const (
	tagStep tag = iota
	tagLoop
	tagSleep
	tagMessage
	tagCheckpoint
	tagJoin
	tagRace
	tagRemoved
	tagVersion
	tags // their number
)

var typeNames = [tags]string{"step", "loop", "sleep", "message", "rollback_checkpoint", "join", "race",
	"removed", "version_check"}

func (Step) kind() tag       { return tagStep }
func (Loop) kind() tag       { return tagLoop }
func (Sleep) kind() tag      { return tagSleep }
func (Message) kind() tag    { return tagMessage }
func (Checkpoint) kind() tag { return tagCheckpoint }
func (Join) kind() tag       { return tagJoin }
func (Race) kind() tag       { return tagRace }
func (Removed) kind() tag    { return tagRemoved }
func (Version) kind() tag    { return tagVersion }

// String returns "pending", "completed" or "interrupted".
func (s SleepState) String() string { return word(s, sleepStates[:]) }

var sleepStates = [...]string{"pending", "completed", "interrupted"}

// String returns "pending", "running", "completed", "failed" or "cancelled".
func (s BranchStatus) String() string { return word(s, branchStatuses[:]) }

var branchStatuses = [...]string{"pending", "running", "completed", "failed", "cancelled"}

// word returns the name of a value of an enumeration.
func word[T ~uint8](v T, words []string) string {
	if int(v) < len(words) {
		return words[v]
	}
	return "unknown"
}
