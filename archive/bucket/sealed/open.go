package sealed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"filippo.io/age"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// headSize is how much of a stored object the first read asks for: the header for 20 recipients, or 2 that are safe against quantum
// computers. With more of them the rest of the header is another read.
const headSize = 4 << 10

// An opening is a Get of one object, from the first read of it until it is known to be what its name says.
type opening struct {
	ctx            context.Context
	b              bucket.Bucket
	keys           *Keys
	name           string
	offset, length int64

	stored stored
	in     io.ReadCloser // of b, nil if none is open
}

// open returns the reader of what is asked for. It has read the header, the last chunk, and the first that is asked for.
func (o *opening) open() (io.ReadCloser, bucket.Object, error) {
	r, object, err := o.start()
	if err != nil {
		return nil, bucket.Object{}, errors.Join(err, o.close())
	}
	return r, object, nil
}

// close closes what is open.
func (o *opening) close() error {
	in := o.in
	if o.in = nil; in == nil {
		return nil
	}
	return in.Close()
}

// start is open, which leaves it to its caller to close what is open after an error.
func (o *opening) start() (*reader, bucket.Object, error) {
	whole := o.offset == 0 && o.length < 0
	ask, head := int64(headSize), int64(headSize)
	if whole { // an object of one chunk is one read
		ask, head = -1, headSize+sealedSize
	}
	in, object, err := o.b.Get(o.ctx, o.name, 0, ask)
	if err != nil {
		return nil, object, err
	}
	o.in = in
	s := &o.stored
	s.opening, s.size = o, object.Size
	if s.head, err = io.ReadAll(io.LimitReader(in, head)); err != nil {
		return nil, object, err
	}
	plain, size, err := o.decrypt()
	if err != nil {
		return nil, object, err
	}
	object.Size = size
	offset, length := min(o.offset, size), o.length
	if length < 0 || length > size-offset {
		length = size - offset
	}
	if whole {
		s.at, s.end = int64(len(s.head)), s.size
	} else if err := o.between(size, offset, length); err != nil {
		return nil, object, err
	}
	r := &reader{opening: o, plain: bufio.NewReaderSize(io.NewSectionReader(plain, offset, length), chunkSize)}
	if _, err := r.plain.Peek(int(min(1, length))); err != nil {
		return nil, object, o.explain(err)
	}
	return r, object, nil
}

// decrypt returns the plain text and its size, of which the last chunk is the proof.
func (o *opening) decrypt() (io.ReaderAt, int64, error) {
	id := &anyOf{identities: o.keys.identities}
	plain, size, err := age.DecryptReaderAt(&o.stored, o.stored.size, id)
	name, ok := stamped(id.header)
	var other *age.NoIdentityMatchError
	switch {
	case errors.As(err, &other) && ok:
		return nil, 0, fmt.Errorf("%w: %s", ErrOtherIdentity, o.name)
	case err != nil && id.header == nil && o.stored.err == nil:
		// What age says would quote the object.
		return nil, 0, fmt.Errorf("%w: %s: it doesn't begin with a header of age, or that is damaged", ErrCorrupt, o.name)
	case err != nil:
		return nil, 0, o.explain(err)
	case !ok:
		return nil, 0, fmt.Errorf("%w: %s: it was encrypted by another program: there is no name in it", ErrCorrupt, o.name)
	case name != o.name:
		return nil, 0, fmt.Errorf("%w: %s: it is the object %q, under another name", ErrCorrupt, o.name, name)
	}
	return plain, size, nil
}

// between starts to read the chunks that length bytes from offset on are in, without what is in memory already.
func (o *opening) between(size, offset, length int64) error {
	if err := o.close(); err != nil || length == 0 {
		return err
	}
	s := &o.stored
	first := s.size - payload(size) // where the chunks begin
	s.at = max(int64(len(s.head)), first+offset/chunkSize*sealedSize)
	s.end = min(s.size, first+((offset+length-1)/chunkSize+1)*sealedSize)
	if len(s.tail) > 0 {
		s.end = min(s.end, s.tailAt)
	}
	if s.at >= s.end {
		return nil
	}
	var err error
	o.in, _, err = o.b.Get(o.ctx, o.name, s.at, s.end-s.at)
	return err
}

// explain says what an error of age means: that of the bucket if there was one, or the object is damaged.
func (o *opening) explain(err error) error {
	if o.stored.err != nil {
		return o.stored.err
	}
	return fmt.Errorf("%w: %s: %v", ErrCorrupt, o.name, err)
}

// stored is an object as it is stored, as age reads it: its beginning and its end are in memory, and the rest is read once, from front
// to back. It is for one goroutine.
type stored struct {
	*opening
	size int64
	head []byte

	tail   []byte // to the end of the object
	tailAt int64

	at, end int64 // what opening.in reads next, and up to where

	err error // of the bucket
}

// ReadAt reads what is stored. An error other than io.EOF is in err, too.
func (s *stored) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		m, err := s.read(p[n:], offset+int64(n))
		n += m
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			s.err = err
		}
		return n, err
	}
	return n, nil
}

// read reads some bytes, from where they are.
func (s *stored) read(p []byte, offset int64) (int, error) {
	switch {
	case offset < int64(len(s.head)):
		return copy(p, s.head[offset:]), nil
	case offset == s.at && s.at < s.end:
		n, err := s.in.Read(p[:min(int64(len(p)), s.end-s.at)])
		if s.at += int64(n); n > 0 && errors.Is(err, io.EOF) {
			err = nil // the tail may go on from here
		}
		return n, err
	case len(s.tail) > 0 && offset >= s.tailAt:
		n := copy(p, s.tail[offset-s.tailAt:])
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	data, _, err := bucket.GetBytes(s.ctx, s.b, s.name, offset, int64(len(p)))
	if err != nil {
		return 0, err
	}
	if offset+int64(len(data)) == s.size {
		s.tail, s.tailAt = data, offset
	}
	if len(data) == 0 {
		return 0, io.EOF
	}
	return copy(p, data), nil
}

// reader reads the plain text.
type reader struct {
	opening *opening
	plain   *bufio.Reader
	closed  bool
}

func (r *reader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, fs.ErrClosed
	}
	n, err := r.plain.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.opening.explain(err)
	}
	return n, err
}

func (r *reader) Close() error {
	r.closed = true
	return r.opening.close()
}
