package vfs

import (
	"bytes"
	"context"
	"sync"

	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// The journal is the rollback journal of a database, tag 1. Its writes stay in
// memory until the main file must be stored in parts: then it goes first. A
// transaction that fits one atomic commit never stores it at all.
//
// Deleting it, truncating it and zeroing its header all end a transaction, and
// all mean the same here: the moment when that is stored is the commit.
type journal struct {
	mu sync.Mutex // connections that look for a hot journal read beside the writer

	file   chunked.File // +checklocks:mu
	exists bool         // +checklocks:mu
	live   bool         // it begins with a header that isn't zeroed  +checklocks:mu

	// storedLive: what the store holds would be rolled back by the next owner.
	storedLive bool // +checklocks:mu
}

// load reads the journal's state from the store. Beside a main file that is plain SQLite
// a first byte of zero is enough, as it is to SQLite.
func (j *journal) load(ctx context.Context, plain bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Load(ctx); err != nil {
		return err
	}
	j.exists = j.file.Stored() >= 0
	start := make([]byte, min(int64(len(format.JournalOver)), j.file.Size()))
	if len(start) > 0 {
		if _, err := j.file.ReadAt(ctx, start, 0); err != nil {
			return err
		}
		j.live = !format.IsJournalOver(start, plain)
	}
	j.storedLive = j.live
	return nil
}

// reset records that the journal is gone, in memory and in the store.
func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.file.Removed()
	j.exists, j.live, j.storedLive = false, false, false
}

// there says whether the file exists.
func (j *journal) there() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.exists
}

// open makes the file exist if create says so, and says whether it does.
func (j *journal) open(create bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exists = j.exists || create
	return j.exists
}

// active says whether a transaction is under way that the journal can undo.
func (j *journal) active() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.live
}

func (j *journal) isStoredLive() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.storedLive
}

// forget ends a journal of which the store has nothing that counts. A record of
// an emptied journal may stay behind; it means nothing.
func (j *journal) forget(remove bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.file.Revert()
	j.exists, j.live = !remove, false
}

// abandon drops what is only in memory of a journal whose transaction SQLite
// neither committed nor rolled back.
func (j *journal) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.file.Revert()
	j.exists = j.file.Stored() >= 0
	if !j.storedLive {
		j.live = false
	}
}

// buffered is the number of chunks that are not stored.
func (j *journal) buffered() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Pending()
}

// legible says whether the stored journal begins as SQLite's do. The journal of an
// encrypting VFS doesn't. SQLite alone would take it for one that is over, and remove
// it: only a connection through that VFS can roll it back.
func (j *journal) legible(ctx context.Context) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	start := make([]byte, len(format.JournalMagic))
	if j.file.Size() < int64(len(start)) {
		return false, nil
	}
	if _, err := j.file.ReadAt(ctx, start, 0); err != nil {
		return false, err
	}
	return bytes.Equal(start, format.JournalMagic), nil
}

// flushJournal stores what is new in the journal, its size after its content.
// Nothing waits for it: being first in the engine's order is enough.
func (db *writer) flushJournal(ctx context.Context) error {
	j := &db.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.exists || !j.file.Changed() {
		return nil
	}
	if err := db.storeOrdered(ctx, &j.file); err != nil {
		return err
	}
	j.storedLive = j.live
	return nil
}

// finishJournal ends the transaction, which SQLite asks for by deleting the
// journal or by emptying it. It is durable when this returns.
func (db *writer) finishJournal(ctx context.Context, remove bool) error {
	if err := db.healthy(); err != nil {
		return err
	}
	if !db.journal.isStoredLive() {
		changed := db.main.Changed()
		err := db.commitAll(ctx)
		if err == nil {
			db.journal.forget(remove)
			if changed {
				db.stats.bufferedCommits.Add(1)
			}
			return nil
		}
		if !tooLarge(err) {
			return err
		}
		db.fellBack(db.main.Pending())
	}
	if err := db.flushMain(ctx); err != nil {
		return err
	}
	return db.endJournal(ctx, remove)
}

// endJournal stores the journal's end: the commit point of a transaction that
// was stored in parts.
func (db *writer) endJournal(ctx context.Context, remove bool) error {
	j := &db.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	b := db.carrier()
	if remove {
		j.file.StageDelete(&b.Group)
	} else {
		if err := j.file.Resize(ctx, 0); err != nil {
			return err
		}
		j.file.Stage(b, 0, chunked.MaxChunks)
		j.file.StageSize(b.Final())
	}
	if err := db.commit(ctx, b); err != nil {
		return err
	}
	if remove {
		j.file.Removed()
	} else {
		j.file.Settled()
	}
	j.exists, j.live, j.storedLive = !remove, false, false
	db.stats.journalCommits.Add(1)
	return nil
}
