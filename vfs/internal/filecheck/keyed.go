package filecheck

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

// A keyedFile is a file as its keys say it: by tag or, in the older form, by name.
type keyedFile struct {
	layout actorstore.Layout
	tag    actorstore.FileTag
	old    bool   // the older form: by name, whose end says the tag
	name   string // of the older form

	// moved is the file in today's form, if f is being rewritten to that: each
	// chunk is under one of the two keys, and counts under today's if under both.
	moved *keyedFile

	live   bool  // the file is the one that is read, not one beside it
	has    bool  // it has a size record
	size   int64 // what the record states, if it can be read
	broken error // why it can't be
}

// tagged returns the file of a tag.
func tagged(l actorstore.Layout, tag actorstore.FileTag) *keyedFile {
	return &keyedFile{layout: l, tag: tag}
}

// oldFile returns the file of a name.
func oldFile(l actorstore.Layout, name string) *keyedFile {
	f := &keyedFile{layout: l, old: true, name: name}
	for tag := actorstore.FileJournal; tag <= actorstore.FileSHM; tag++ {
		if strings.HasSuffix(name, oldkeys.Suffixes[tag]) {
			f.tag = tag
		}
	}
	return f
}

// sibling returns another file of the same database.
func (f *keyedFile) sibling(tag actorstore.FileTag) *keyedFile {
	if !f.old {
		return tagged(f.layout, tag)
	}
	return &keyedFile{layout: f.layout, tag: tag, old: true, name: strings.TrimSuffix(f.name, oldkeys.Suffixes[f.tag]) + oldkeys.Suffixes[tag]}
}

// chunked.AppendMeta appends the key of the size record.
func (f *keyedFile) appendMeta(dst []byte) []byte {
	if f.old {
		return f.layout.AppendNamedFileMeta(dst, f.name)
	}
	return f.layout.AppendFileMeta(dst, f.tag)
}

// appendChunk appends the key of chunk i.
func (f *keyedFile) appendChunk(dst []byte, i uint32) []byte {
	if f.old {
		return f.layout.AppendNamedFileChunk(dst, f.name, i)
	}
	return f.layout.AppendFileChunk(dst, f.tag, i)
}

// chunks returns the half-open range in which the chunks from number from on lie.
func (f *keyedFile) chunks(from uint32) (start, end []byte) {
	if !f.old {
		return f.layout.FileChunks(f.tag, from)
	}
	_, end = f.layout.NamedFileChunks(f.name)
	return f.appendChunk(nil, from), end
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

// oldFileOf returns the file whose size record of the older form key is.
func oldFileOf(l actorstore.Layout, key []byte) (*keyedFile, bool) {
	name, ok := strings.CutPrefix(string(key), string(l.AppendNamedFileMeta(nil, "")))
	return oldFile(l, name), ok && name != "" && strings.IndexByte(name, 0) < 0
}
