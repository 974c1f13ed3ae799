package vfs

import (
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
)

// noLocks are the locking methods of files that SQLite never locks: only the
// main database file is.
type noLocks struct{}

// Lock does nothing.
func (noLocks) Lock(sqlitevfs.LockLevel) error { return nil }

// Unlock does nothing.
func (noLocks) Unlock(sqlitevfs.LockLevel) error { return nil }

// CheckReservedLock returns false.
func (noLocks) CheckReservedLock() (bool, error) { return false, nil }

// SectorSize is one chunk.
func (noLocks) SectorSize() int { return chunked.Size }

// DeviceCharacteristics are those of every file of an actor.
func (noLocks) DeviceCharacteristics() sqlitevfs.DeviceCharacteristic { return characteristics }

// characteristics hold for every file of an actor, because a chunk is stored
// whole or not at all and no size is stored before what it covers. SEQUENTIAL
// isn't claimed: SQLite would not ask for the syncs that order its files then.
//
// https://sqlite.org/c3ref/c_iocap_atomic.html
const characteristics = sqlitevfs.IOCAP_POWERSAFE_OVERWRITE |
	sqlitevfs.IOCAP_SAFE_APPEND | sqlitevfs.IOCAP_SUBPAGE_READ
