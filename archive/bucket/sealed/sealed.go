// Package sealed encrypts the objects of a bucket, in the format of age (https://age-encryption.org/v1): to store one takes recipients, which
// are public, and to read one an identity, which is secret. So a host can write backups that it can't read.
//
// A stored object is a file of age whose plain text is the object: "age -d" reads it, without this module. It is stored under the name
// of the object, and its header has the name, too; stamp.go says how. An attacker that can write to the bucket sees the names, how
// long the objects are, and when they were stored. Besides,
//
//   - without a recipient the attacker can't change an object, shorten it, or pass it off as another one: Get returns ErrCorrupt, or the
//     reader does when it comes to the damaged chunk. To remove an object, and to put an older one of the same name in its place, is
//     possible, and this package doesn't notice it;
//   - with a recipient the attacker can store objects, as every writer can. A recipient is not a signature.
package sealed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// sealed is a Bucket whose objects are those of b, encrypted.
type sealed struct {
	b    bucket.Bucket
	keys *Keys
}

// New returns a Bucket that keeps its objects in b, encrypted for the recipients of keys, which is not nil. It is as safe for
// concurrent use as b is.
//
// Put needs no disk. It keeps one chunk of 64 KiB in memory, and 16 bytes for each chunk of the object: 1 MiB for 4 GiB. b may read the
// sealed object several times and at any offset, as it does to try again. The body must not change until Put returns: the error is
// ErrChanged if it does.
//
// Get reads three things of b: the first 4 KiB of the object; its last chunk, which proves its size; and the chunks of the range. If the
// whole object is asked for, it reads all of it, and the last chunk once more unless that is the first. Each chunk is authenticated
// before a byte of it is returned. An open reader takes about 400 KiB of memory. The Size of the Object that Get returns is that of
// the plain text.
//
// Without an identity a writer can Put, List and Delete. Get returns ErrNoIdentity, or fs.ErrNotExist if the object doesn't exist. So
// such a writer must be able to go on from the names of what it has stored, or keep what it has to know in another bucket.
//
// The Size of an Object that List yields is that of the sealed object: longer than the plain text by 16 bytes for each chunk that
// has begun, and a header: about 300 bytes with one recipient, 2 KiB if that is safe against quantum computers.
func New(b bucket.Bucket, keys *Keys) bucket.Bucket {
	k := *keys
	return &sealed{b, &k}
}

// Put stores the sealed form of body.
func (s *sealed) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return err
	}
	if len(s.keys.recipients) == 0 {
		return ErrNoRecipient
	}
	f, err := seal(name, body, s.keys.recipients)
	if err != nil {
		return fmt.Errorf("sealed: %s: %w", name, err)
	}
	return s.b.Put(ctx, name, io.NewSectionReader(f, 0, f.size()), how)
}

// maxOpens is how often Get opens an object that another Put replaces meanwhile.
const maxOpens = 5

// Get opens the object until it is the same from its beginning to its end: another Put may replace it between two reads.
func (s *sealed) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if len(s.keys.identities) == 0 {
		in, _, err := s.b.Get(ctx, name, 0, 1)
		if err == nil {
			err = cmp.Or(in.Close(), ErrNoIdentity)
		}
		return nil, bucket.Object{}, err
	}
	if offset < 0 {
		return nil, bucket.Object{}, fmt.Errorf("sealed: %s: the offset %d is negative", name, offset)
	}
	var before []byte
	for n := 1; ; n++ {
		o := &opening{ctx: ctx, b: s.b, keys: s.keys, name: name, offset: offset, length: length}
		r, object, err := o.open()
		if err == nil {
			return r, object, nil
		}
		if !errors.Is(err, ErrCorrupt) || bytes.Equal(o.stored.head, before) || n == maxOpens {
			return nil, bucket.Object{}, err
		}
		before = o.stored.head
	}
}

// List yields the objects as they are stored.
func (s *sealed) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	return s.b.List(ctx, prefix)
}

// Delete removes the object.
func (s *sealed) Delete(ctx context.Context, name string) error { return s.b.Delete(ctx, name) }
