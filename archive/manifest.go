package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// ErrFenced: another Writer has begun on the same destination.
var ErrFenced = errkind.New("archive: another process writes backups to this destination", errkind.ErrFenced)

// ErrOtherStore: the destination has the backups of another store.
var ErrOtherStore = errors.New("archive: the destination has the backups of another store")

// ErrElsewhere: the destination has backups of this store, whose history has gone on in another destination since. It is an ErrOtherStore.
var ErrElsewhere = errkind.New("archive: the destination has earlier backups of this store, whose history has gone on in another one", ErrOtherStore)

// ErrNotArchive: a bucket, or the part of it below a prefix, has no backups.
var ErrNotArchive = errkind.New("archive: there are no backups here", errkind.ErrNotFound)

// ErrEncrypted: a backup is encrypted, and was opened without the identity that reads it.
var ErrEncrypted = errors.New("archive: the backup is encrypted: to read it takes its key")

// ageMagic is what the objects of such a backup begin with.
const ageMagic = "age-encryption.org/"

// formatVersion is the version of what is in a bucket.
const formatVersion = 1

// A Manifest is the object that says what a bucket is.
type Manifest struct {
	// Greenroom is "backup".
	Greenroom string `json:"greenroom"`
	// Format is the version of what is in the bucket.
	Format uint64 `json:"format"`
	// ID tells this backup from all others.
	ID uuid.UUID `json:"id"`
	// Created is when it began.
	Created time.Time `json:"created"`
}

// readManifest returns what says that a bucket is an archive. The error is ErrNotArchive if nothing does.
func readManifest(ctx context.Context, b bucket.Bucket) (m Manifest, err error) {
	if err := readJSON(ctx, b, manifestName, &m); errors.Is(err, fs.ErrNotExist) {
		return m, ErrNotArchive
	} else if err != nil {
		return m, err
	}
	if m.Greenroom != "backup" || m.ID == (uuid.UUID{}) {
		return m, fmt.Errorf("%w: the object %q is of something else", ErrNotArchive, manifestName)
	}
	if m.Format > formatVersion {
		return m, &kv.FormatError{What: "backup", Found: m.Format, Known: formatVersion}
	}
	return m, nil
}

// makeManifest makes an archive of a bucket that isn't one yet, and returns what says so.
func makeManifest(ctx context.Context, b bucket.Bucket, now time.Time) (Manifest, error) {
	m, err := readManifest(ctx, b)
	if !errors.Is(err, ErrNotArchive) {
		return m, err
	}
	m = Manifest{Greenroom: "backup", Format: formatVersion, ID: uuid.New(), Created: now.UTC()}
	if err = writeJSON(ctx, b, manifestName, m, bucket.Once); errors.Is(err, bucket.ErrExists) {
		return readManifest(ctx, b)
	}
	return m, err
}

// maxJSON bounds an object of JSON that is read, in bytes.
const maxJSON = 1 << 20

// readJSON reads an object of JSON.
func readJSON(ctx context.Context, b bucket.Bucket, name string, into any) error {
	data, _, err := bucket.GetBytes(ctx, b, name, 0, maxJSON)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(data, []byte(ageMagic)) {
		return ErrEncrypted
	}
	if err := json.Unmarshal(data, into); err != nil {
		return damaged(name, err)
	}
	return nil
}

// writeJSON stores one.
func writeJSON(ctx context.Context, b bucket.Bucket, name string, v any, how bucket.How) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return bucket.PutBytes(ctx, b, name, append(data, '\n'), how)
}

// damaged says that an object is, and why if that isn't nil.
func damaged(name string, why error) error {
	if why == nil {
		return fmt.Errorf("%w: the object %s", kv.ErrCorrupt, name)
	}
	if errors.Is(why, kv.ErrCorrupt) {
		return fmt.Errorf("the object %s: %w", name, why)
	}
	return fmt.Errorf("%w: the object %s: %w", kv.ErrCorrupt, name, why)
}

// An owner is for which archive a store holds its log: pebblekv.Held.For.
type owner struct {
	archive uuid.UUID
	line    uint64      // of which it is the store, 0 for none: it was restored from the archive
	left    []uuid.UUID // archives that were it before, the last one first
}

// maxLeft is how many of these are remembered.
const maxLeft = 8

// String returns the text of it: ARCHIVE/LINE, and behind that the archives of before, each behind a space.
func (o owner) String() string {
	text := fmt.Sprintf("%s/%d", o.archive, o.line)
	for _, id := range o.left {
		text += " " + id.String()
	}
	return text
}

// parseOwner parses what String returns. What another version may write in the place of something is the zero value of that.
func parseOwner(text string) (o owner) {
	parts := strings.Split(text, " ")
	id, line, _ := strings.Cut(parts[0], "/")
	var err error
	if o.archive, err = uuid.Parse(id); err != nil {
		return owner{}
	}
	o.line, _ = parseNumber("", line)
	for _, part := range parts[1:] {
		if id, err := uuid.Parse(part); err == nil {
			o.left = append(o.left, id)
		}
	}
	return o
}

// leaving returns the archives that a store which is o has left when it goes on in another one.
func (o owner) leaving(to uuid.UUID) []uuid.UUID {
	left := slices.Insert(slices.Clone(o.left), 0, o.archive)
	left = slices.DeleteFunc(left, func(id uuid.UUID) bool { return id == to || id == uuid.UUID{} })
	return left[:min(len(left), maxLeft)]
}
