package workaround

import (
	"io"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// CheckManifest returns the path of MANIFEST, the list of tables, in the directory of a store, and whether it is whole. If it isn't, it may be cut
// off before the record with the last sequence number. Pebble would use sequence numbers a second time then, and panics when it finds two rows
// with the same one. If MANIFEST ends with a whole record, and has more than one, that record is there.
func CheckManifest(disk vfs.FS, dir string) (path string, whole bool, err error) {
	name, err := atomicfs.ReadMarker(disk, dir, "manifest")
	if err != nil {
		return "", false, err
	}
	path = disk.PathJoin(dir, name)
	f, err := disk.Open(path)
	if err != nil {
		return "", false, err
	}
	n := 0
	for records := record.NewReader(f, 0); err == nil; n++ {
		var in io.Reader
		if in, err = records.Next(); err == nil {
			_, err = io.Copy(io.Discard, in)
		}
	}
	return path, err == io.EOF && n > 2, f.Close()
}
