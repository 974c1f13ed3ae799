package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// reader reads an object from next on.
type reader struct {
	s         *server
	ctx       context.Context
	name      string
	next, end int64
	object    bucket.Object
	etag      string
	patient   *patient

	// body is the answer that is read, and stop ends it. It is nil after it has failed.
	body io.ReadCloser
	stop func()
	// attempt is the context of the answer.
	attempt context.Context
	// idle ends the answer when nothing of it comes.
	idle *time.Timer
}

// open makes one attempt to ask for what is still missing.
func (r *reader) open() error {
	var opts minio.GetObjectOptions
	// Also the whole is asked for as a range: such an answer says how large the object is, however much of it arrives.
	from := fmt.Sprintf("bytes=%d-", r.next)
	if r.end < math.MaxInt64 {
		from += strconv.FormatInt(r.end-1, 10)
	}
	opts.Set("Range", from)
	if r.etag != "" {
		opts.Set("If-Match", `"`+r.etag+`"`)
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	idle := time.AfterFunc(attemptTime, func() { cancel(errSlow) })
	stop := func() { idle.Stop(); cancel(nil) }
	body, o, header, err := r.s.client.GetObject(ctx, r.s.bucket, r.s.prefix+r.name, opts)
	if err != nil {
		err = ofTime(ctx, err)
		stop()
		if exists, _ := conflict(err); exists {
			return errReplaced
		}
		return err
	}
	size, err := wholeSize(header, r.next)
	if err != nil {
		stop()
		return errors.Join(err, body.Close())
	}
	r.body, r.stop, r.idle, r.attempt, r.end, r.etag = body, stop, idle, ctx, min(r.end, size), o.ETag
	r.object = bucket.Object{Name: r.name, Size: size, Modified: o.LastModified}
	return nil
}

// empty makes r a reader of no bytes, of what there is.
func (r *reader) empty() error {
	o, err := r.s.stat(r.ctx, r.s.prefix+r.name)
	r.body, r.stop, r.next, r.end = io.NopCloser(bytes.NewReader(nil)), func() {}, 0, 0
	r.object = bucket.Object{Name: r.name, Size: o.Size, Modified: o.LastModified}
	return err
}

// wholeSize returns the size of an object of which an answer has a part, which must begin at start.
func wholeSize(header http.Header, start int64) (int64, error) {
	field := header.Get("Content-Range")
	part, whole, ok := strings.Cut(strings.TrimPrefix(field, "bytes "), "/")
	size, err := strconv.ParseInt(whole, 10, 64)
	if !ok || err != nil || !strings.HasPrefix(part, fmt.Sprint(start, "-")) {
		return 0, &finalError{fmt.Errorf("s3: asked for the bytes from %d on, the server sends %q", start, field)}
	}
	return size, nil
}

// Read reads until the end, however many answers that takes.
func (r *reader) Read(p []byte) (int, error) {
	for {
		if r.next >= r.end {
			return 0, io.EOF
		}
		if len(p) == 0 {
			return 0, nil
		}
		n, err := r.readBody(p[:min(int64(len(p)), r.end-r.next)])
		r.next += int64(n)
		if n > 0 {
			r.patient.progress()
			return n, nil
		}
		if err := r.patient.wait(r.ctx, err); err != nil {
			return 0, r.s.explain("get", r.name, err)
		}
	}
}

// readBody reads from the answer, or from another one after it failed, which it closes.
func (r *reader) readBody(p []byte) (int, error) {
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		r.idle.Reset(attemptTime)
	} else if n == 0 {
		err = ofTime(r.attempt, err)
		r.stop()
		err = errors.Join(err, r.body.Close())
		r.body = nil
	}
	return n, err
}

// Close ends the reading.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	r.stop()
	return r.body.Close()
}
