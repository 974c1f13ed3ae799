package bucket_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
)

func TestBounded(t *testing.T) {
	buckettest.Run(t, func(*testing.T) bucket.Bucket { return bucket.Bounded(buckettest.NewMemory()) })
}

// hanging is a bucket of which the calls in hang don't return until go on is closed, whatever becomes of their contexts. They tell hung.
type hanging struct {
	bucket.Bucket
	hang   string
	hung   func()
	goOn   chan struct{}
	closed chan struct{} // by the reader
}

func (h *hanging) at(call string) {
	if call == h.hang {
		h.hung()
		<-h.goOn
	}
}

func (h *hanging) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	h.at("put")
	return h.Bucket.Put(context.WithoutCancel(ctx), name, body, how)
}

func (h *hanging) Delete(ctx context.Context, name string) error {
	h.at("delete")
	return h.Bucket.Delete(ctx, name)
}

func (h *hanging) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	h.at("get")
	in, o, err := h.Bucket.Get(context.WithoutCancel(ctx), name, offset, length)
	return &hangingReader{in, h}, o, err
}

func (h *hanging) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	h.at("list")
	return h.Bucket.List(ctx, prefix)
}

type hangingReader struct {
	io.ReadCloser
	h *hanging
}

func (r *hangingReader) Read(b []byte) (int, error) {
	r.h.at("read")
	return r.ReadCloser.Read(b)
}

func (r *hangingReader) Close() error {
	r.h.at("close")
	close(r.h.closed)
	return r.ReadCloser.Close()
}

// TestBoundedHangs tests that each call of a bucket that hangs ends with its context, that what was left is done when it goes on, and that a reader that was left is closed.
func TestBoundedHangs(t *testing.T) {
	for _, call := range []string{"put", "delete", "get", "list", "read", "close"} {
		t.Run(call, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			memory := buckettest.NewMemory()
			if err := bucket.PutBytes(ctx, memory, "a", []byte("one"), bucket.Once); err != nil {
				t.Fatal(err)
			}
			h := &hanging{memory, call, cancel, make(chan struct{}), make(chan struct{})}
			b := bucket.Bounded(h)
			var err error
			switch call {
			case "put":
				err = bucket.PutBytes(ctx, b, "b", nil, bucket.Once)
			case "delete":
				err = b.Delete(ctx, "a")
			case "list":
				for _, err = range b.List(ctx, "") {
				}
			default:
				_, _, err = bucket.GetBytes(ctx, b, "a", 0, -1)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", call, err)
			}
			close(h.goOn)
			switch call {
			case "get", "read", "close":
				<-h.closed
			}
		})
	}
}

// telling is a bucket whose Put tells done its error, at last.
type telling struct {
	bucket.Bucket
	done chan error
}

func (b *telling) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	err := b.Bucket.Put(ctx, name, body, how)
	b.done <- err
	return err
}

// A file is a body that can be closed.
type file struct{ open bool }

func (f *file) ReadAt(p []byte, _ int64) (int, error) {
	if !f.open {
		return 0, errors.New("it is read after Put has returned")
	}
	return len(p), nil
}

// TestBoundedBody tests that a body isn't read any more when Put has returned, though the call that hung goes on.
func TestBoundedBody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &hanging{buckettest.NewMemory(), "put", cancel, make(chan struct{}), nil}
	b := &telling{h, make(chan error, 1)}
	f := &file{open: true}
	if err := bucket.Bounded(b).Put(ctx, "a", io.NewSectionReader(f, 0, 10), bucket.Once); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.open = false
	close(h.goOn)
	if err := <-b.done; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the call that hung returns %v", err)
	}
}
