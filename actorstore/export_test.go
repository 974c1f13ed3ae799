package actorstore

import (
	"testing"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// Limits and errors that tests are about.
var (
	ErrPagesOnly = errPagesOnly
	ErrNote      = errNote
)

const (
	HintsBeside   = hintsBeside
	Layouts       = layouts
	MaxNoteKey    = maxNoteKey
	NotesOfCommit = notesOfCommit
	PageNames     = pageNames
	PageRows      = pageRows
)

// DescribeIn returns a key of the layout in words, "" if no namespace of the layout has it.
func DescribeIn(l Layout, key []byte) string { return l.describe(key) }

// Evict drops what the memory of the actor's Store has under a key, as a full cache does.
func Evict(a *Actor, key []byte) {
	if part := a.reads.Part(); part != nil {
		part.Remove(key)
	}
}

// What the tests inside the package share with those outside; see shared_test.go.
var (
	TestID       = testID
	ErrTest      = errTest
	SmallForks   = smallForks
	Clock        = clock
	OnEngines    = onEngines
	OpenStore    = openStore
	OpenNear     = openNear
	OpenActor    = openActor
	CheckRefused = checkRefused
	Problems     = problems
	UserName     = user
	PutOne       = put
	GetString    = get
	Words        = words
	Chunk        = chunk
	PageOf       = pageOf
	WritePages   = writePages
	OpenFar      = openFar
	ReadPage     = readPage
	ReadCount    = readCount
	Boot         = boot
)

type (
	Anywhere  = anywhere
	Far       = far
	Forgetful = forgetful
	Journal   = journal
	Machine   = machine
)

// LeaseTTL is how long the leases of machines last.
const LeaseTTL = leaseTTL

// Take opens the actor TestID, until the test ends.
func (m *machine) Take(t testing.TB, opts *ActorOptions) *Actor {
	t.Helper()
	return m.take(t, opts)
}

// HostInfo is what is stored of the host of the machine.
func (m *machine) HostInfo() HostInfo { return m.hostInfo() }

// Faults is the engine of the machine.
func (m *machine) Faults() *faultkv.Engine { return m.eng }

// Watch makes the journal note the hooks of a batch.
func (j *journal) Watch(b *batch.Batch, name string) *batch.Batch { return j.watch(b, name) }

// Check wants what the journal has noted, and empties it.
func (j *journal) Check(t *testing.T, want ...string) {
	t.Helper()
	j.check(t, want...)
}
