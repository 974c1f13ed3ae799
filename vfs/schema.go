package vfs

import (
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// schemaChange returns the version of the schema that the main file f has, if that may be another one than the one that is stored.
func schemaChange(f *chunked.File) (version uint64, changed bool) {
	if page := f.Page(0); page != nil {
		return format.UserVersion(page[:]), true
	}
	return 0, f.Size() == 0
}
