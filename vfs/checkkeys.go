package vfs

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A keyedFile is a file as its keys say it: by tag or, in the older form, by name.
// Which of the two forms is used is of no importance to a check.
type keyedFile struct {
	tag  actorstore.FileTag
	name string // not "": the older form, whose suffix says the tag

	size   int64 // as the size record states it, if that can be read
	broken error // why it can't be read
}

// suffixes are what SQLite appends to the name of a database for its other files.
var suffixes = [...]string{
	actorstore.FileMain: "", actorstore.FileJournal: "-journal", actorstore.FileWAL: "-wal", actorstore.FileSHM: "-shm",
}

// named returns the file of a name.
func named(name string) *keyedFile {
	f := &keyedFile{name: name}
	for tag := actorstore.FileJournal; tag <= actorstore.FileSHM; tag++ {
		if strings.HasSuffix(name, suffixes[tag]) && name != suffixes[tag] {
			f.tag = tag
		}
	}
	return f
}

// sibling returns another file of the same database.
func (f *keyedFile) sibling(tag actorstore.FileTag) *keyedFile {
	if f.name == "" {
		return &keyedFile{tag: tag}
	}
	return &keyedFile{tag: tag, name: strings.TrimSuffix(f.name, suffixes[f.tag]) + suffixes[tag]}
}

// appendMeta appends the key of the size record.
func (f *keyedFile) appendMeta(dst []byte) []byte {
	if f.name == "" {
		return actorstore.AppendFileMeta(dst, f.tag)
	}
	n := len(dst)
	dst = actorstore.AppendFileMeta(dst, 0)
	return append(dst[:n+2], f.name...)
}

// appendChunk appends the key of chunk i.
func (f *keyedFile) appendChunk(dst []byte, i uint32) []byte {
	if f.name == "" {
		return actorstore.AppendFileChunk(dst, f.tag, i)
	}
	return binary.BigEndian.AppendUint32(append(f.appendChunks(dst), 0), i)
}

func (f *keyedFile) appendChunks(dst []byte) []byte {
	n := len(dst)
	dst = actorstore.AppendFileChunk(dst, 0, 0)
	return append(dst[:n+2], f.name...)
}

// chunks returns the half-open range in which all chunks lie.
func (f *keyedFile) chunks() (start, end []byte) {
	if f.name == "" {
		return actorstore.FileChunks(f.tag, 0)
	}
	return f.appendChunk(nil, 0), append(f.appendChunks(nil), 1)
}

// number returns the number of the chunk under a key of that range, unless the key is
// of another form.
func (f *keyedFile) number(key []byte) (i uint32, ok bool) {
	if len(key) < 4 {
		return 0, false
	}
	i = binary.BigEndian.Uint32(key[len(key)-4:])
	return i, bytes.Equal(key, f.appendChunk(nil, i))
}

// namedOf returns the file whose size record of the older form key is.
func namedOf(key []byte) (*keyedFile, bool) {
	f := named(string(key[2:]))
	return f, f.name != "" && strings.IndexByte(f.name, 0) < 0
}

// namedOfChunk returns the file one of whose chunks of the older form key is.
func namedOfChunk(key []byte) (*keyedFile, bool) {
	if len(key) < 2 {
		return nil, false
	}
	name, _, _ := strings.Cut(string(key[2:]), "\x00")
	f := named(name)
	if name == "" {
		return f, false
	}
	_, ok := f.number(key)
	return f, ok
}
