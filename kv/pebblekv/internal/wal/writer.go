package wal

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A writer gathers records in memory and writes them to the current file, one behind the other. Its fields but io are guarded by the mu of its
// Log, which callers of its methods hold.
type writer struct {
	io    sync.Mutex // held by the goroutine that writes
	out   vfs.File   // nil as long as nothing is to be written
	buf   []byte     // records that aren't written yet
	spare []byte     // memory for the next
	at    int64      // where in the file they go
	last  uint64     // number of the last record
	wrote uint64     // up to which they are written
}

// A chunk is what is written at once, and where.
type chunk struct {
	out  vfs.File
	buf  []byte
	at   int64
	last uint64 // number of its last record
}

// take returns what isn't written yet, to be written with some more bytes behind it. The caller holds io.
func (w *writer) take(more int) chunk {
	c := chunk{w.out, w.buf, w.at, w.last}
	w.buf, w.at = w.spare[:0], w.at+int64(len(c.buf)+more)
	return c
}

// written notes that c was written, whose memory can be used again.
func (w *writer) written(c chunk) {
	w.wrote = c.last
	if w.spare = c.buf; cap(c.buf) > maxAhead {
		w.spare = nil
	}
}

// write writes c, and more behind it.
func (c chunk) write(more []byte) (err error) {
	if len(c.buf) > 0 {
		_, err = c.out.WriteAt(c.buf, c.at)
	}
	if len(more) > 0 && err == nil {
		_, err = c.out.WriteAt(more, c.at+int64(len(c.buf)))
	}
	return err
}
