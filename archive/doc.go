// Package archive backs up a store in a directory to a bucket, all the time, and makes stores and actors as of any kept time from it.
//
// A store has one log of all that changes, whatever the number of its actors. A Writer follows it, and stores what it says within a
// second as a segment; now and then it stores a base, which is the tables of the store as they are then. A state is a base and the
// records of the log behind it, up to a commit. Restore makes a store of a state; Archive.Actor opens what a state has of one actor, and reads of
// the bucket little more than that.
//
// What is in the bucket:
//
//	archive                            what it is: JSON, see Manifest
//	epoch/NUMBER                       a Writer has begun: JSON
//	lineage/NUMBER                     a lineage has begun: JSON
//	line/LINEAGE/base/NUMBER           a base: which files the store has with this commit, see base.go
//	line/LINEAGE/log/FIRST             a segment: the records from FIRST on, see segment.go
//	line/LINEAGE/log/FIRST-LAST        segments that were put together
//	table/SUM                          a table, by its SHA-256
//
// A lineage is an unbroken history of one store: its bases, and each record behind the first one. Its number is the epoch in
// which it began. A Writer goes on with the last lineage if the log still has its last record, and else begins one: so two stores never mix,
// even if one is a copy of the other. An epoch is taken by storing its object, which of several Writers one can; the others, and those of
// earlier epochs, stop with ErrFenced when they learn of it. The objects of old epochs are removed, and their numbers aren't taken again; epochs.go says why
// that is safe. A segment is stored only if its first number is free.
//
// The bytes of objects are checked whenever they are read: each has the checksums of its parts, each segment the checksum of the record
// before its first one.
package archive

// Files, from the top down:
//
//	doc.go erase.go writer.go ship.go merge.go makebase.go claim.go link.go restore.go actor.go archive.go verify.go collect.go epochs.go read.go catalog.go tables.go base.go
//	manifest.go names.go segment.go frame.go group.go metrics.go
