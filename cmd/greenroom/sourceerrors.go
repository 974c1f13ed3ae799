package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/ncruces/go-sqlite3"
)

// sqliteMagic is what a database begins with.
//
// https://sqlite.org/fileformat2.html#magic_header_string
const sqliteMagic = "SQLite format 3\x00"

// sourceError says what is wrong with a file that is to be read as a database.
func sourceError(name string, err error) error {
	var code sqlite3.ErrorCode
	var extended sqlite3.ExtendedErrorCode
	var said *errkind.Sentence
	errors.As(err, &code)
	errors.As(err, &extended)
	switch {
	case err == nil:
		return nil
	case code == sqlite3.NOTADB:
		return say(err, "%s is not an SQLite database", name)
	case code == sqlite3.CORRUPT:
		return say(err, "%s is damaged, so it is not imported: %v", name, trimmed(err))
	case errors.As(err, &said):
		return err
	case extended == sqlite3.READONLY_ROLLBACK || extended == sqlite3.READONLY_RECOVERY:
		return say(err, "%s has an unfinished transaction beside it: open it once with write access, so that it is rolled back", name)
	case code == sqlite3.BUSY:
		return say(err, "%s is locked by another program", name)
	}
	return say(err, "import of %s: %v", name, trimmed(err))
}

// describeSource is sourceError for a file at path that could not even be opened:
// it looks at how the file begins.
func describeSource(name, path string, err error) error {
	said := sourceError(name, err)
	var code sqlite3.ErrorCode
	errors.As(err, &code)
	head, size, herr := readHead(path)
	switch {
	case herr != nil:
		return said
	case code == sqlite3.CORRUPT:
		return sourceError(name, missingPages(head, size, err))
	case code == sqlite3.CANTOPEN:
		return sourceError(name, errors.Join(err, companionError(path)))
	case code != sqlite3.NOTADB:
		return said
	case bytes.HasPrefix(head, []byte(sqliteMagic)):
		return say(err, "%s begins like an SQLite database, but its header is damaged, or the rest is encrypted", name)
	case isText(head):
		return say(err, "%s is not an SQLite database: it begins with text", name)
	}
	return say(err, "%s is not an SQLite database, or it is encrypted", name)
}

// readHead returns the first 100 bytes of a file, in which a database has its
// header, or all of a shorter one; and the size of the file.
func readHead(path string) (head []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if head, err = io.ReadAll(io.LimitReader(f, 100)); err != nil {
		return nil, 0, err
	}
	size, err = f.Seek(0, io.SeekEnd)
	return head, size, err
}

// companionError says which of the files beside a database can't be read, which
// SQLite keeps to itself.
func companionError(path string) error {
	for _, companion := range []string{"-journal", "-wal", "-shm"} {
		f, err := os.Open(path + companion)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isText says whether b, which may end within a character, reads as text.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n <= 1 {
			return !utf8.FullRune(b)
		}
		if r < ' ' && !strings.ContainsRune("\t\n\f\r", r) {
			return false
		}
		b = b[n:]
	}
	return true
}

// isWAL says whether the header of a database asks for a write-ahead log.
//
// https://sqlite.org/fileformat2.html#file_format_version_numbers
func isWAL(head []byte) bool {
	return len(head) == 100 && bytes.HasPrefix(head, []byte(sqliteMagic)) && head[19] == 2
}

// missingPages says of a database, on which SQLite gave up with err, that it is
// longer than its file, if its header does.
//
// https://sqlite.org/fileformat2.html#in_header_database_size
func missingPages(head []byte, have int64, err error) error {
	if len(head) < 100 || !bytes.Equal(head[24:28], head[92:96]) {
		return err // the count is not to be believed
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 65536
	}
	count := int64(binary.BigEndian.Uint32(head[28:]))
	if count*size <= have {
		return err
	}
	return cutShort(count, size, have)
}

// cutShort: a database has more pages than its file has room for.
func cutShort(count, size, have int64) error {
	return say(sqlite3.CORRUPT, "%d pages of %d bytes are %d bytes, and the file has %d", count, size, count*size, have)
}

// trimmed is err without the library's name in front.
func trimmed(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "sqlite3: ")
	const code, what = "unable to open database file: ", "unable to open database: " // which say the same
	if strings.HasPrefix(text, code+what) {
		text = strings.TrimPrefix(text, code)
	}
	return say(err, "%s", text)
}
