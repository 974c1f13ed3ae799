package sqlitesuite

import (
	"slices"
	"strings"
	"testing"
)

// touch is run on every image after what its corpus does with it: look at
// everything, commit something, read it again.
const touch = `
	SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema;
	PRAGMA page_size; PRAGMA page_count; PRAGMA freelist_count; PRAGMA encoding; PRAGMA auto_vacuum;
	CREATE TABLE greenroom_touch(a, b);
	INSERT INTO greenroom_touch VALUES (1, zeroblob(9000)), (2, 'x');
	SELECT a, length(b) FROM greenroom_touch;
	PRAGMA integrity_check;
	DROP TABLE greenroom_touch;`

// TestFuzzImages stores the damaged databases of SQLite's fuzz corpora under an
// actor's keys, byte for byte, and opens them: nothing may panic, and SQLite must
// say of each what it says of the same file over the plain VFS.
func TestFuzzImages(t *testing.T) {
	images := fuzzInputs(t, "SELECT dbid, dbcontent FROM db ORDER BY dbid", stride(t, 20))
	scripts := map[string]string{}
	for _, in := range fuzzInputs(t, "SELECT sqlid, sqltext FROM xsql WHERE EXISTS (SELECT * FROM db)", 1) {
		corpus, _, _ := strings.Cut(in.name, "/")
		scripts[corpus] += string(in.data)
	}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f, disk, file := fuzzer{house: newHouse(t, m), mode: m}, newPlain(t), files(t.TempDir())
			counts := map[string]int{}
			for _, in := range images {
				corpus, _, _ := strings.Cut(in.name, "/")
				script, data := scripts[corpus]+touch, slices.Clone(in.data)
				if unlogged(data) {
					// As it is, it goes into a file, for the plain VFS has no log.
					outcome, d := f.compare(t, in, script, file.create(t, in.data), in.data...)
					if d != "" {
						t.Errorf("%s in WAL mode: %s", in.name, d)
					}
					counts[outcome+" in WAL mode"]++
				}
				outcome, d := f.compare(t, in, script, disk.create(t, data), data...)
				if d != "" {
					t.Errorf("%s: %s", in.name, d)
				}
				counts[outcome]++
			}
			logCounts(t, len(images), "images", counts)
		})
	}
}

// unlogged turns the image of a database in WAL mode into one with a rollback
// journal, as memdb does, since the log is missing. It says whether it was one.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func unlogged(image []byte) (was bool) {
	for i := 18; i < min(20, len(image)); i++ {
		if image[i] == 2 {
			image[i], was = 1, true
		}
	}
	return was
}
