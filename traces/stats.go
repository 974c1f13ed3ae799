package traces

// Stats are numbers of one Traces, since Open unless it says otherwise.
type Stats struct {
	Active       int   // spans that run
	Pending      int   // chunks that wait to be written
	PendingBytes int   // their size
	Bytes        int64 // of all chunks that are stored, as far as this package wrote them

	Chunks, Records int64 // written
	Retries         int64 // attempts at writing that failed
	Trimmed         int64 // buckets removed

	DroppedChunks, DroppedRecords int64 // given up because too much was waiting, or at the end
	DroppedSpans                  int64 // no more recorded: MaxActive
	DroppedAttributes             int64 // kept out by Limits or the size of a chunk
	DroppedEvents, DroppedLinks   int64
	Truncated                     int64 // values that were cut
	Ignored                       int64 // calls of spans that had ended, or were dropped

	LastWriteError error // of the last attempt, nil if it succeeded
}
