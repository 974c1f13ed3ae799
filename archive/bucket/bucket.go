// Package bucket is where an archive keeps its objects: named runs of bytes that are written whole and
// never changed in place. Folder is a bucket in a directory; package s3 has one in an S3 server, and
// package sealed encrypts the objects of another one.
package bucket

// Files, from the top down:
//
//	folder.go bounded.go bucket.go

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"time"
)

// A Bucket keeps objects by their names. All methods are safe for concurrent use, by several processes too.
//
// A name is one or more parts that are joined by slashes. A part has letters, digits and the signs "-_." and doesn't begin
// with a dot; see CheckName.
type Bucket interface {
	// Put stores an object of the bytes of body under name. The object is there as a whole or not at all, and on stable storage when
	// Put returns. If there is one of the name already it is replaced; with Once nothing is stored then, and the error is ErrExists: of
	// several that store it at the same time one does. After any other error it may have been stored or not.
	Put(ctx context.Context, name string, body *io.SectionReader, how How) error
	// Get returns length bytes of an object from offset on, fewer where it ends before; a negative length is the rest. The
	// caller closes the reader. The error is fs.ErrNotExist if it doesn't exist.
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, Object, error)
	// List yields the objects whose names begin with prefix, in the order of their names. An error ends the sequence.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Delete removes an object, if it exists.
	Delete(ctx context.Context, name string) error
}

// An Object is what a bucket says of an object.
type Object struct {
	Name string
	// Size is that of the whole object, in bytes. From List it is that of what is stored, which is more in a Bucket that stores another
	// form of its objects; see package sealed.
	Size int64
	// Modified is when the object was stored, by the clock of the bucket.
	Modified time.Time
}

// How is how a Put stores an object of a name that there may be already.
type How int

const (
	// Replacing stores it in the place of the other one.
	Replacing How = iota
	// Once stores it only if the name is free.
	Once
)

// ErrExists says that a Put has stored nothing, because there is an object of the name.
var ErrExists = errors.New("bucket: the object exists")

// ErrName says that a name can't be that of an object.
var ErrName = errors.New("bucket: not a name of an object")

// maxName is how long a name may be, in bytes.
const maxName = 512

// CheckName returns ErrName unless name can be that of an object.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return ErrName
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.ContainsFunc(part, func(c rune) bool { return !plain(c) }) {
			return ErrName
		}
	}
	return nil
}

// plain reports whether a name may have c.
func plain(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// PutBytes stores an object of some bytes; see Bucket.Put.
func PutBytes(ctx context.Context, b Bucket, name string, data []byte, how How) error {
	return b.Put(ctx, name, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), how)
}

// GetBytes returns length bytes of an object from offset on; see Bucket.Get. The bytes are the caller's.
func GetBytes(ctx context.Context, b Bucket, name string, offset, length int64) ([]byte, Object, error) {
	in, o, err := b.Get(ctx, name, offset, length)
	if err != nil {
		return nil, o, err
	}
	data, err := io.ReadAll(in)
	return data, o, errors.Join(err, in.Close())
}

// Lazy returns a Bucket that open opens with the first call of a method, and with the next one after an error, which that call returns.
func Lazy(open func(ctx context.Context) (Bucket, error)) Bucket { return &lazy{open: open} }

// lazy is a Bucket that is opened when it is needed.
type lazy struct {
	open func(ctx context.Context) (Bucket, error)

	mu sync.Mutex
	is Bucket // +checklocks:mu
}

// get opens the bucket, unless it is open.
func (l *lazy) get(ctx context.Context) (Bucket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.is == nil {
		l.is, err = l.open(ctx)
	}
	return l.is, err
}

func (l *lazy) Put(ctx context.Context, name string, body *io.SectionReader, how How) error {
	b, err := l.get(ctx)
	if err != nil {
		return err
	}
	return b.Put(ctx, name, body, how)
}

func (l *lazy) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, Object, error) {
	b, err := l.get(ctx)
	if err != nil {
		return nil, Object{}, err
	}
	return b.Get(ctx, name, offset, length)
}

func (l *lazy) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	b, err := l.get(ctx)
	if err != nil {
		return func(yield func(Object, error) bool) { yield(Object{}, err) }
	}
	return b.List(ctx, prefix)
}

func (l *lazy) Delete(ctx context.Context, name string) error {
	b, err := l.get(ctx)
	if err != nil {
		return err
	}
	return b.Delete(ctx, name)
}
