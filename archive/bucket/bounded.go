package bucket

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"sync"
)

// Bounded returns a Bucket whose calls, and the readers and lists that they return, end with the error of their context when that ends, also while a call of b
// hangs, as that of a file system on the net does: it doesn't look at its context then. That call is left to itself. It may be done at any time later, or
// never, as one that has failed may; but a body isn't read any more when its Put has returned. Each call takes a goroutine.
func Bounded(b Bucket) Bucket { return bounded{b} }

type bounded struct{ b Bucket }

// within returns what fn returns, and true, or the error of ctx and false if that ends before. Then late is called with what fn returns after all.
func within[T any](ctx context.Context, fn func() (T, error), late func(T)) (_ T, ended bool, _ error) {
	type result struct {
		is  T
		err error
	}
	done := make(chan result)
	go func() {
		is, err := fn()
		select {
		case done <- result{is, err}:
		case <-ctx.Done():
			late(is)
		}
	}()
	select {
	case r := <-done:
		return r.is, true, r.err
	case <-ctx.Done():
		var none T
		return none, false, ctx.Err()
	}
}

// nothing is what a call returns that returns an error alone.
type nothing struct{}

func forget(nothing) {}

func (l bounded) Put(ctx context.Context, name string, body *io.SectionReader, how How) error {
	borrowed := &lent{in: body}
	defer borrowed.end()
	sent := io.NewSectionReader(borrowed, 0, body.Size())
	_, _, err := within(ctx, func() (nothing, error) { return nothing{}, l.b.Put(ctx, name, sent, how) }, forget)
	return err
}

// lent is a body that is read until end returns.
type lent struct {
	mu    sync.RWMutex // held by readers
	in    io.ReaderAt
	ended bool // +checklocks:mu
}

func (l *lent) ReadAt(p []byte, offset int64) (int, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.ended {
		return 0, fs.ErrClosed
	}
	return l.in.ReadAt(p, offset)
}

func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l bounded) Delete(ctx context.Context, name string) error {
	_, _, err := within(ctx, func() (nothing, error) { return nothing{}, l.b.Delete(ctx, name) }, forget)
	return err
}

// opened is what Get returns.
type opened struct {
	in     io.ReadCloser
	object Object
}

func (l bounded) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, Object, error) {
	o, _, err := within(ctx, func() (opened, error) {
		in, object, err := l.b.Get(ctx, name, offset, length)
		return opened{in, object}, err
	}, func(o opened) {
		if o.in != nil {
			_ = o.in.Close() // nothing was read
		}
	})
	if err != nil {
		return nil, o.object, err
	}
	return &boundedReader{ctx: ctx, in: o.in}, o.object, nil
}

// boundedReader is a reader of Get, for one goroutine.
type boundedReader struct {
	ctx  context.Context
	in   io.ReadCloser
	buf  []byte // for Read: one that hangs must not write to what its caller has
	left bool   // a call hangs, and closes in if it ends
}

// boundedBytes is how much a boundedReader reads at once, at most.
const boundedBytes = 256 << 10

func (r *boundedReader) Read(p []byte) (int, error) {
	size := min(len(p), boundedBytes)
	if size > len(r.buf) {
		r.buf = make([]byte, size)
	}
	n, err := r.call(func() (int, error) { return r.in.Read(r.buf[:size]) }, func(int) { _ = r.in.Close() }) // nothing was read
	return copy(p, r.buf[:n]), err
}

// Close closes the reader, or leaves that to the call that hangs.
func (r *boundedReader) Close() error {
	if r.left {
		return nil
	}
	_, err := r.call(func() (int, error) { return 0, r.in.Close() }, func(int) {})
	return err
}

// call makes a call, and leaves it, and the reader, when the context ends before; see within.
func (r *boundedReader) call(fn func() (int, error), late func(int)) (n int, err error) {
	if r.left {
		return 0, r.ctx.Err()
	}
	n, ended, err := within(r.ctx, fn, late)
	r.left = !ended
	return n, err
}

func (l bounded) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		type entry struct {
			object Object
			err    error
		}
		found := make(chan entry)
		go func() {
			defer close(found)
			for o, err := range l.b.List(ctx, prefix) {
				select {
				case found <- entry{o, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case e, more := <-found:
				if !more || !yield(e.object, e.err) || e.err != nil {
					return
				}
			case <-ctx.Done():
				yield(Object{}, ctx.Err())
				return
			}
		}
	}
}
