package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// writerKey is the key of the metadata of an object under which a Put writes its own name.
const writerKey = "Greenroom-Put"

const (
	// partSize is the size of the parts of a body, but of the last one.
	partSize = 16 << 20
	// maxParts is how many parts an upload may have: larger bodies have larger ones.
	maxParts = 10000
	// together is how many parts are sent at the same time.
	together = 4
)

// maxSingle is the size of the largest body that S3 takes in one request.
const maxSingle = 5 << 30

// An upload is a Put under way.
type upload struct {
	s    *server
	key  string
	body *io.SectionReader
	how  bucket.How
	// writer is the name of the Put.
	writer string
	// parts says to send a large body in parts.
	parts bool
}

// newUpload returns one with a new name.
func (s *server) newUpload(key string, body *io.SectionReader, how bucket.How) *upload {
	return &upload{s: s, key: key, body: body, how: how, writer: rand.Text(), parts: body.Size() > partSize}
}

// store makes one attempt, and finds out what became of it where the answer doesn't say so.
func (u *upload) store(ctx context.Context) error {
	var err error
	if u.parts {
		err = u.sendParts(ctx)
	} else {
		err = u.send(ctx)
	}
	exists, other := conflict(err)
	gone := noUpload(err)
	if !exists && !other && !gone && (err != nil || !u.parts) {
		return err
	}
	// An earlier attempt may have been done, and its answer lost. And a server that is asked again to complete an upload may say that
	// it is complete when it was lost in a crash, or when there is another writer's object.
	there, mine, serr := u.look(ctx)
	switch {
	case serr != nil:
		return serr
	case mine:
		return nil
	case there && u.how == bucket.Once:
		return bucket.ErrExists
	case exists:
		return fmt.Errorf("the object existed, and was deleted at the same time: %w", err)
	}
	return errLater // an upload that was lost, or was in another one's way
}

// options are those of a request that stores the object. Only the request that gives it its name has the condition.
func (u *upload) options(naming bool) minio.PutObjectOptions {
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{writerKey: u.writer}, DisableContentSha256: true}
	if naming && u.how == bucket.Once {
		opts.SetMatchETagExcept("*")
	}
	return opts
}

// send sends the body in one request.
func (u *upload) send(ctx context.Context) error {
	sum, err := sumOf(u.body)
	if err != nil {
		return err
	}
	return request(ctx, u.body.Size(), func(ctx context.Context) error {
		b := newBody(u.body)
		_, err := u.s.client.PutObject(ctx, u.s.bucket, u.key, b, u.body.Size(), "", sum, u.options(true))
		return b.end(err)
	})
}

// sumOf is the checksum with which a request is signed: the server refuses bytes that were damaged on their way.
func sumOf(in *io.SectionReader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(in, 0, in.Size())); err != nil {
		return "", &finalError{err}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// look reports whether there is an object, and whether this Put has stored it.
func (u *upload) look(ctx context.Context) (there, mine bool, err error) {
	o, err := u.s.stat(ctx, u.key)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	for key, value := range o.UserMetadata {
		mine = mine || strings.EqualFold(key, writerKey) && value == u.writer
	}
	return err == nil, err == nil && mine, err
}

// sendParts sends the body in parts, each of which is tried again by itself.
func (u *upload) sendParts(ctx context.Context) error {
	var id string
	err := u.s.try(ctx, func(ctx context.Context) error {
		return request(ctx, 0, func(ctx context.Context) (err error) {
			id, err = u.s.client.NewMultipartUpload(ctx, u.s.bucket, u.key, u.options(false))
			return err
		})
	})
	if err != nil {
		return err
	}
	parts, err := u.sendAll(ctx, id)
	if err == nil {
		err = u.s.try(ctx, func(ctx context.Context) error {
			return request(ctx, 0, func(ctx context.Context) error {
				_, err := u.s.client.CompleteMultipartUpload(ctx, u.s.bucket, u.key, id, parts, u.options(true))
				return err
			})
		})
	}
	if err == nil || noUpload(err) {
		return err
	}
	return errors.Join(err, u.abort(ctx, id))
}

// abort gives up an upload whose parts would stay in the bucket else.
func (u *upload) abort(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := u.s.client.AbortMultipartUpload(ctx, u.s.bucket, u.key, id)
	if noUpload(err) {
		return nil
	}
	return err
}

// sendAll sends the parts of an upload.
func (u *upload) sendAll(ctx context.Context, id string) ([]minio.CompletePart, error) {
	size := max(int64(partSize), (u.body.Size()+maxParts-1)/maxParts)
	parts := make([]minio.CompletePart, max(1, (u.body.Size()+size-1)/size))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(together, len(parts)) {
		wg.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					continue
				}
				part := io.NewSectionReader(u.body, int64(i)*size, min(size, u.body.Size()-int64(i)*size))
				var err error
				if parts[i], err = u.sendPart(ctx, id, i+1, part); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range parts {
		next <- i
	}
	close(next)
	wg.Wait()
	return parts, context.Cause(ctx)
}

// sendPart sends a part of the body, whose number is from 1 on.
func (u *upload) sendPart(ctx context.Context, id string, number int, part *io.SectionReader) (minio.CompletePart, error) {
	sum, err := sumOf(part)
	if err != nil {
		return minio.CompletePart{}, err
	}
	done := minio.CompletePart{PartNumber: number}
	err = u.s.try(ctx, func(ctx context.Context) error {
		return request(ctx, part.Size(), func(ctx context.Context) error {
			b := newBody(part)
			opts := minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true}
			o, err := u.s.client.PutObjectPart(ctx, u.s.bucket, u.key, id, number, b, part.Size(), opts)
			done.ETag = o.ETag
			return b.end(err)
		})
	})
	return done, err
}
