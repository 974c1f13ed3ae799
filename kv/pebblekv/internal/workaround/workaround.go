// Package workaround is what stands between a store and Pebble, because Pebble does something that a store can't live with, or lacks
// something that a store needs. Each file is about one such thing, and goes when Pebble is otherwise:
//
//	Pebble v2.1.7 …                                                         here                  fails without it                       until
//	ends the process when it can't write MANIFEST, and goes on in doubt if  fence.go, logger.go,  TestBrokenDisk,                        it returns the error and stops writing
//	 Fatalf returns. While it opens a store it tries again for ever         fault.go              TestOpenOnBrokenDisk
//	tries a failed flush or compaction again at once and for ever           fence.go, compact.go  TestDiskFull (the wait for room),      it waits in between
//	                                                                                              TestCompactionWithoutRoom
//	compacts before it is open, and until the disk is full                  compact.go, fence.go  TestCompactionWithoutRoom              its options bound what compactions take
//	panics when a compaction begins that was cancelled while it waited      compact.go            TestCloseDuringReclaim                 it forgets what it picked
//	panics where its state is in doubt, and may leave mutexes locked        fault.go              workaround.TestGuard                   it returns an error
//	has writers wait with its locks held, which no context ends             gate.go               TestGate, TestCloseAtGate              its commits take a context
//	panics, or reads freed memory, if used during or after Close            life.go               TestCloseInScan                        Close waits for calls
//	changes a snapshot that is taken while a large batch is applied         newest.go             workaround.TestReadsBesideLargeBatch,  a flush waits until its batch is visible
//	 (docs/upstream/large-batch.md)                                                               TestLargeApplied
//	looks for a compaction when the oldest snapshot is closed, under a      spare.go              workaround.TestSpareFullDisk           it looks on a goroutine of its own
//	 lock that waits for room on the disk
//	uses sequence numbers again if MANIFEST was cut off, and panics later   manifest.go           TestManifestCut                        MANIFEST says how long it is
//	doesn't say of each missing or short file that it is damage, nor        errors.go             TestLostFile, TestOptionsCut           its errors of damage are of one kind
//	 always which file it is
//	reads batches for a store that is open for reading from its log alone   replay.go             TestReadOnlyLog                        Open can be given batches
//	doesn't open a store for reading that has no directory for logs         lostdir.go            none                                   it does if DisableWAL is set
//	makes files that other users can read, as the umask says                private.go            TestPrivate                            vfs.Default has a mode
//	locks a store for writing when it opens it for reading                  sharedlock.go         cmd/greenroom.TestReadOnlyFolder       it takes a lock for reading
//	writes all of a value of which some bytes have changed                  patch.go              TestMerge, TestPatchBytes              never: merging is meant for that
//
// No report of any of it to Pebble is known. Tests are those of kv/pebblekv, unless they say otherwise. What is worked around in passing stays
// where it is: the empty key and ranges that are cleared (kv/pebblekv/encode.go), iterators that step over versions (read.go), and
// directories whose parents aren't synced (inspect.go).
//
// It isn't a way to tune Pebble, and knows nothing of commits, of the log, or of what the rows mean.
package workaround

// Files, from the top down:
//
//	workaround.go replay.go lostdir.go manifest.go errors.go newest.go spare.go patch.go
//	fence.go logger.go compact.go gate.go fault.go life.go private.go sharedlock.go sharedlock_unix.go sharedlock_other.go
