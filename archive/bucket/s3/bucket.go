package s3

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

var _ bucket.Bucket = (*server)(nil)

// Put sends one request, or for a body of more than 16 MiB one for each of its parts.
func (s *server) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	u := s.newUpload(s.prefix+name, body, how)
	if how == bucket.Once && !s.parts && u.parts {
		if body.Size() > maxSingle {
			return fmt.Errorf("s3: put %s: %d bytes take more than one request: %w", name, body.Size(), ErrUnconditional)
		}
		u.parts = false
	}
	err := s.try(ctx, u.store)
	if errors.Is(err, bucket.ErrExists) {
		return bucket.ErrExists
	}
	return s.explain("put", name, err)
}

// Get sends a request, and another one for the rest whenever an answer is cut off.
func (s *server) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return nil, bucket.Object{}, err
	}
	if offset < 0 {
		return nil, bucket.Object{}, fmt.Errorf("s3: get %s: the offset %d is negative", name, offset)
	}
	r := &reader{s: s, ctx: ctx, name: name, next: offset, end: math.MaxInt64, patient: s.newPatient()}
	if length >= 0 && length < math.MaxInt64-offset {
		r.end = offset + length
	}
	var err error
	if r.end == offset {
		err = r.empty()
	} else {
		err = s.try(ctx, func(context.Context) error { return r.open() })
	}
	if answer, ok := answered(err); ok && answer.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		err = r.empty()
	}
	if err != nil {
		return nil, bucket.Object{}, s.explain("get", name, err)
	}
	return r, r.object, nil
}

// List asks for a page after the other.
func (s *server) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	return func(yield func(bucket.Object, error) bool) {
		last, p := "", s.newPatient()
		for {
			more, err := s.listAfter(ctx, prefix, &last, func(o bucket.Object) bool {
				p.progress()
				return yield(o, nil)
			})
			if err == nil || !more {
				return
			}
			if err = p.wait(ctx, err); err != nil {
				yield(bucket.Object{}, s.explain("list", prefix, err))
				return
			}
		}
	}
}

// listAfter yields objects after the key last, which it sets to that of each. It reports whether the caller wants more.
func (s *server) listAfter(ctx context.Context, prefix string, last *string, yield func(bucket.Object) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true, StartAfter: *last}
	for o := range s.client.ListObjectsIter(ctx, s.bucket, opts) {
		if o.Err != nil {
			return true, o.Err
		}
		if o.Key <= *last {
			return true, &finalError{fmt.Errorf("s3: the server lists %s after %s", o.Key, *last)}
		}
		*last = o.Key
		name := strings.TrimPrefix(o.Key, s.prefix)
		if bucket.CheckName(name) != nil {
			continue // not one of package bucket's
		}
		if !yield(bucket.Object{Name: name, Size: o.Size, Modified: o.LastModified}) {
			return false, nil
		}
	}
	return true, ctx.Err()
}

// Delete sends one request.
func (s *server) Delete(ctx context.Context, name string) error {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return err
	}
	return s.explain("delete", name, s.remove(ctx, s.prefix+name))
}

// prepare probes once, before the first object is stored.
func (s *server) prepare(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probed {
		return nil
	}
	err := s.probe(ctx)
	s.probed = err == nil
	return err
}

// probe finds out whether two conditional writes of one object exclude each other: in one request, which is what Once needs, and in parts,
// without which larger bodies are sent in one request, too.
func (s *server) probe(ctx context.Context) (err error) {
	key := s.prefix + ".probe-" + rand.Text()
	if err := s.once(ctx, key, false); err != nil {
		return s.explain("try conditional writes in", "", err)
	}
	defer func() { err = errors.Join(err, s.explain("try conditional writes in", "", s.remove(ctx, key))) }()
	switch err := s.once(ctx, key, false); {
	case err == nil:
		return s.explain("try conditional writes in", "", fmt.Errorf("%w: %s stored an object twice in spite of If-None-Match", ErrUnconditional, s.endpoint))
	case !errors.Is(err, bucket.ErrExists):
		return s.explain("try conditional writes in", "", err)
	}
	switch err := s.once(ctx, key, true); {
	case errors.Is(err, bucket.ErrExists):
		s.parts = true
	case err != nil && !errors.Is(err, ErrUnconditional):
		return s.explain("try conditional writes in", "", err)
	}
	return nil
}

// listOne asks for the first object.
func (s *server) listOne(ctx context.Context) error {
	return request(ctx, 0, func(ctx context.Context) error {
		for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, MaxKeys: 1, Recursive: true}) {
			return o.Err
		}
		return ctx.Err()
	})
}

// once stores a small object, unless there is one of the key.
func (s *server) once(ctx context.Context, key string, parts bool) error {
	const text = "Greenroom has tried here whether the server knows conditional writes. This object can be deleted."
	u := s.newUpload(key, io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), bucket.Once)
	u.parts = parts
	err := s.try(ctx, u.store)
	if answer, ok := answered(err); ok && answer.StatusCode == http.StatusNotImplemented {
		return fmt.Errorf("%w: %s: %w", ErrUnconditional, s.endpoint, err)
	}
	if err != nil {
		return err
	}
	_, mine, err := u.look(ctx)
	if err == nil && !mine && !parts {
		err = fmt.Errorf("%w: %s doesn't keep the metadata of objects", ErrUnconditional, s.endpoint)
	}
	return err
}
