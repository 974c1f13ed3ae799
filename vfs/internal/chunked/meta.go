package chunked

import (
	"fmt"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/bare"
)

// metaVersion is the version of the file metadata record.
const metaVersion = 1

// MetaSize is the length of an encoded metadata record.
const MetaSize = 2 + 8

// AppendMeta appends the metadata record of a file of size bytes: the versioned
// envelope (u16 little-endian), then BARE {size: u64}.
func AppendMeta(dst []byte, size int64) []byte {
	return bare.AppendU64(bare.AppendVersion(dst, metaVersion), uint64(size))
}

// ParseMeta returns the size that a metadata record states.
func ParseMeta(record []byte) (int64, error) {
	version, rest, err := bare.Version(record)
	if err != nil {
		return 0, fmt.Errorf("vfs: file metadata: %w: %w", actorstore.ErrCorrupt, err)
	}
	if version > metaVersion {
		return 0, fmt.Errorf("vfs: %w", &actorstore.FormatError{
			What: "file metadata", Found: uint64(version), Known: metaVersion})
	}
	if version == 0 {
		return 0, fmt.Errorf("vfs: file metadata of version 0: %w", actorstore.ErrCorrupt)
	}
	r := bare.NewReader(rest)
	size := r.U64()
	if err := r.Done(); err != nil {
		return 0, fmt.Errorf("vfs: file metadata: %w: %w", actorstore.ErrCorrupt, err)
	}
	if size > MaxFileSize {
		return 0, fmt.Errorf("vfs: file metadata: size %d is over %d: %w",
			size, int64(MaxFileSize), actorstore.ErrCorrupt)
	}
	return int64(size), nil
}
