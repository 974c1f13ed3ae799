package pebblekv

import "github.com/cockroachdb/pebble/v2/vfs"

// logAhead is how many bytes of zeros at most stand behind the last record of a
// write-ahead log: as many as some thirty commits of one page take.
const logAhead = 128 << 10

var zeros [logAhead]byte

// A logTail keeps zeros written ahead of a write-ahead log's end. Its methods may be
// called on nil, which is no log, and not concurrently: Pebble writes and syncs a log in
// one goroutine.
//
// Why: a sync of a file that has grown must wait for the file system's own journal,
// which has the new size and says that the blocks are in use; one whose bytes were
// overwritten in place waits for the bytes alone. Reserving the blocks, which Pebble
// does, isn't enough: they count as unwritten, and the journal has to say when they no
// longer are. So the file grows once for many commits. Pebble recycles its logs for the
// same reason, but has nothing to recycle until a memtable is full.
//
// To who reads the log zeros are its end, as the unwritten part of a preallocated file
// would be: https://pkg.go.dev/github.com/cockroachdb/pebble/v2/record.
type logTail struct {
	end    int64 // of what Pebble wrote
	zeroed int64 // below this the file has its bytes already
	off    bool  // zeros can't be written
}

// newLogTail describes file, which may be one that Pebble uses again.
func newLogTail(file vfs.File) *logTail {
	l := new(logTail)
	if info, err := file.Stat(); err == nil {
		l.zeroed = info.Size()
	}
	return l
}

// wrote says that n bytes were appended.
func (l *logTail) wrote(n int) {
	if l != nil {
		l.end += int64(n)
	}
}

// grow writes zeros behind the end of file if it has grown since the last sync: that
// the next sync would wait for the journal is settled, and what is written without one,
// a large import for instance, needs no zeros.
func (l *logTail) grow(file vfs.File) {
	if l == nil || l.off || l.end <= l.zeroed {
		return
	}
	// To a multiple, so that small records don't leave a page half zeroed.
	l.zeroed = (l.end/logAhead + 1) * logAhead
	if _, err := file.WriteAt(zeros[:l.zeroed-l.end], l.end); err != nil {
		// Nothing is lost without them. If the disk is full or broken, the sync or the
		// next record says so.
		l.off = true
	}
}
