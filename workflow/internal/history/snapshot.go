package history

// A Snapshot is everything that is stored of a workflow, or was in memory at a moment. It
// is its owner's own, but the bytes and slices in entries are shared and must not be
// changed.
type Snapshot struct {
	State  State
	Input  []byte // encoded; nil for none
	Output []byte // encoded; nil for none
	Error  *Failure
	// Names are the registry, by NameIndex.
	Names []string
	// Entries are sorted by Location, each with its Metadata.
	Entries []Entry
	// Orphans are metadata of entries that aren't there, by the entry's ID; mostly nil.
	Orphans map[string]Metadata
}
