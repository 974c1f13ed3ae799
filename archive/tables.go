package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

const (
	// chunkBytes is how much of a table is read at once, and maxChunks how many of these are remembered.
	chunkBytes = 128 << 10
	maxChunks  = 256
	// atOnce is how many tables are stored, or read as a whole, at the same time.
	atOnce = 4
)

// chunks remembers what was read of tables. It is safe for concurrent use.
type chunks struct {
	ctx    context.Context
	bucket bucket.Bucket
	gone   func(error) error // says why something couldn't be read

	mu    sync.Mutex
	data  map[chunk][]byte // +checklocks:mu
	order []chunk          // the oldest first  +checklocks:mu
}

// A chunk is a part of a table.
type chunk struct {
	object string
	at     int64
}

// newChunks returns what reads tables of a bucket, until ctx ends. Errors of it are what gone makes of them.
func newChunks(ctx context.Context, b bucket.Bucket, gone func(error) error) *chunks {
	return &chunks{ctx: ctx, bucket: b, gone: gone, data: map[chunk][]byte{}}
}

// get returns a chunk of a table, which isn't to be changed. Concurrent calls may read it twice.
func (c *chunks) get(k chunk, size int64) ([]byte, error) {
	c.mu.Lock()
	data := c.data[k]
	c.mu.Unlock()
	if data != nil {
		return data, nil
	}
	data, o, err := bucket.GetBytes(c.ctx, c.bucket, k.object, k.at, chunkBytes)
	if err != nil {
		return nil, c.gone(missing(k.object, err))
	}
	if o.Size != size || int64(len(data)) != min(chunkBytes, size-k.at) {
		return nil, damaged(k.object, fmt.Errorf("it has %d bytes, not %d", o.Size, size))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data[k] == nil {
		if len(c.order) == maxChunks {
			delete(c.data, c.order[0])
			c.order = c.order[1:]
		}
		c.data[k] = data
		c.order = append(c.order, k)
	}
	return data, nil
}

// A table is one that is read where it is.
type table struct {
	chunks *chunks
	object string
	size   int64
}

// ReadAt reads the chunks with what is asked for.
func (t *table) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) && err == nil {
		if at >= t.size {
			return n, io.EOF
		}
		var data []byte
		from := at / chunkBytes * chunkBytes
		if data, err = t.chunks.get(chunk{t.object, from}, t.size); err == nil {
			copied := copy(b[n:], data[at-from:])
			n, at = n+copied, at+int64(copied)
		}
	}
	return n, err
}

// missing returns the error of a table that can't be read: damage, if the object is missing.
func missing(object string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(object, fmt.Errorf("it is missing: %w", err))
	}
	return err
}

var errNoSum = errors.New("its bytes have another checksum")

// copyTable copies a table to out and to count, and compares its checksum.
func copyTable(ctx context.Context, b bucket.Bucket, f *baseFile, out, count io.Writer) error {
	in, o, err := b.Get(ctx, f.object(), 0, f.Size+1) // an object that is larger doesn't fill the disk
	if err != nil {
		return missing(f.object(), err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum, count), in)
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.Sum {
		return damaged(f.object(), fmt.Errorf("%w: %d bytes of %d", errNoSum, n, o.Size))
	}
	return nil
}
