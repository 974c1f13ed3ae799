package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/kv"
)

// A base is an object: 8 bytes of magic, the CRC-32C of what follows, little-endian, and a frame of Zstandard of a baseList as JSON.
const baseMagic = "grnrbase"

// maxBase bounds a baseList that is read, in bytes, packed and unpacked.
const maxBase = 1 << 30

// A baseList says which files a store has with a commit.
type baseList struct {
	Format  uint64     `json:"format"`
	Number  uint64     `json:"number"` // of the last commit in it
	LastSum sum        `json:"sum"`    // of that one's record, zero if it isn't known
	Time    time.Time  `json:"time"`   // no commit in it was made later
	Files   []baseFile `json:"files"`
}

// A baseFile is one of them: a table, which is an object, or another one, whose bytes are here.
type baseFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"` // SHA-256 in hex, which is the table's name below table/
	Data []byte `json:"data,omitempty"`
}

// table reports whether the file is a table.
func (f *baseFile) table() bool { return strings.HasSuffix(f.Name, ".sst") }

// object is the name of a table's object.
func (f *baseFile) object() string { return tablePrefix + f.Sum }

// bytes is how large the tables are.
func (l *baseList) bytes() (n int64) {
	for i := range l.Files {
		n += l.Files[i].Size
	}
	return n
}

// encode returns the object.
func (l *baseList) encode() ([]byte, error) {
	z, err := newEncoder()
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	out := z.EncodeAll(data, append([]byte(baseMagic), 0, 0, 0, 0))
	putSum(out[len(baseMagic):], out[len(baseMagic)+4:])
	return out, nil
}

// readBase reads a base of a lineage.
func readBase(ctx context.Context, b bucket.Bucket, name string) (*baseList, error) {
	data, _, err := bucket.GetBytes(ctx, b, name, 0, maxBase)
	if err != nil {
		return nil, err
	}
	head := len(baseMagic) + 4
	if len(data) < head || string(data[:len(baseMagic)]) != baseMagic || !hasSum(data[len(baseMagic):], data[head:]) {
		return nil, damaged(name, nil)
	}
	z, err := newDecoder()
	if err != nil {
		return nil, err
	}
	defer z.Close()
	text, err := decode(z, data[head:], maxBase)
	l := new(baseList)
	if err == nil {
		err = json.Unmarshal(text, l)
	}
	if err != nil {
		return nil, damaged(name, err)
	}
	if l.Format > formatVersion {
		return nil, &kv.FormatError{What: "base of a backup", Found: l.Format, Known: formatVersion}
	}
	if number, err := strconv.ParseUint(path.Base(name), 10, 64); err != nil || number != l.Number {
		return nil, damaged(name, fmt.Errorf("it is that of record %d", l.Number))
	}
	return l, l.check(name)
}

// check returns an error if a list can't be that of a store: names that lead elsewhere, bytes that are others.
func (l *baseList) check(name string) error {
	for i := range l.Files {
		f := &l.Files[i]
		switch {
		case f.Size < 0:
			return damaged(name, fmt.Errorf("the file %.80q has %d bytes", f.Name, f.Size))
		case slices.ContainsFunc(strings.Split(f.Name, "/"), func(part string) bool { return bucket.CheckName(part) != nil }), len(f.Sum) != hex.EncodedLen(sha256.Size):
			return damaged(name, fmt.Errorf("a file %.80q", f.Name))
		case f.table() && (strings.Contains(f.Name, "/") || bucket.CheckName(f.object()) != nil):
			return damaged(name, fmt.Errorf("a table %.80q", f.Name))
		case !f.table() && (int64(len(f.Data)) != f.Size || hexSum(f.Data) != f.Sum):
			return damaged(name, fmt.Errorf("the file %s", f.Name))
		}
	}
	return nil
}

// hexSum is the SHA-256 of some bytes in hex.
func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// sumFile is that of a file of a size.
func sumFile(ctx context.Context, in io.ReaderAt, size int64) (string, error) {
	sum, buf := sha256.New(), make([]byte, 256<<10)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := in.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if n == 0 && err != nil {
			return "", err
		}
		sum.Write(buf[:n])
		at += int64(n)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// putSum writes the CRC-32C of data to dst, and hasSum compares it.
func putSum(dst, data []byte) {
	c := crc32.Checksum(data, castagnoli)
	dst[0], dst[1], dst[2], dst[3] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
}

func hasSum(sum, data []byte) bool {
	var is [4]byte
	putSum(is[:], data)
	return string(is[:]) == string(sum[:4])
}

// known are tables that are in the bucket, and stay there.
type known struct {
	names map[string]baseFile // by the names that the store has for them
	sums  map[string]bool
}

// knownOf returns the tables of a base that is stored. own says that it is of the store, so that its names are the store's.
func knownOf(l *baseList, own bool) known {
	k := known{map[string]baseFile{}, map[string]bool{}}
	for _, f := range l.Files {
		if f.table() {
			k.sums[f.Sum] = true
			if own {
				k.names[f.Name] = f
			}
		}
	}
	return k
}
