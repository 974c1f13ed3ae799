package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// server is a bucket of an S3 server.
type server struct {
	client *minio.Core
	bucket string
	// prefix is what the keys of all objects begin with: it is empty or ends with a slash.
	prefix   string
	endpoint string
	patience time.Duration

	mu     sync.Mutex // held while the server is probed
	probed bool       // +checklocks:mu
	// parts says that the server keeps to If-None-Match at the end of an upload in parts, too: known once it was probed.
	parts bool
}

// newPatient returns one whose patience begins now.
func (s *server) newPatient() *patient { return &patient{patience: s.patience, since: time.Now()} }

// try makes attempts until one succeeds, or none may be made any more.
func (s *server) try(ctx context.Context, attempt func(ctx context.Context) error) error {
	p := s.newPatient()
	for {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		if err := p.wait(ctx, err); err != nil {
			return err
		}
	}
}

// stat returns what the server says of an object; the error is fs.ErrNotExist if it doesn't exist.
func (s *server) stat(ctx context.Context, key string) (o minio.ObjectInfo, err error) {
	err = s.try(ctx, func(ctx context.Context) error {
		return request(ctx, 0, func(ctx context.Context) (err error) {
			o, err = s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
			if answer, ok := answered(err); ok && missing(answer) {
				return fs.ErrNotExist
			}
			return err
		})
	})
	return o, err
}

// remove removes the object of a key, if there is one.
func (s *server) remove(ctx context.Context, key string) error {
	err := s.try(ctx, func(ctx context.Context) error {
		return request(ctx, 0, func(ctx context.Context) error {
			return s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{})
		})
	})
	if answer, ok := answered(err); ok && answer.Code == minio.NoSuchKey {
		return nil
	}
	return err
}

// explain returns the error of an operation on an object, or on the bucket if name is empty, in the terms of this package.
func (s *server) explain(op, name string, err error) error {
	if err == nil {
		return nil
	}
	what := "s3://" + s.bucket
	if name != "" {
		what += "/" + s.prefix + name
	}
	answer, ok := answered(err)
	switch {
	case ok && answer.Code == minio.NoSuchBucket:
		err = fmt.Errorf("%w at %s", ErrNoBucket, s.endpoint)
	case ok && missing(answer):
		err = fs.ErrNotExist
	case ok && denied(answer):
		err = fmt.Errorf("%w by %s: %s (%s)", ErrAccess, s.endpoint, strings.TrimSuffix(answer.Message, "."), answer.Code)
	case temporary(err) && !errors.Is(err, errLater):
		err = fmt.Errorf("%w: %s: %w", ErrUnreachable, s.endpoint, err)
	}
	return fmt.Errorf("s3: %s %s: %w", op, what, err)
}
