package buckettest

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// ErrInjected is the error of a call that a Faults fails.
var ErrInjected = errors.New("buckettest: injected")

// A Fault is what becomes of a call that changes a Faulty bucket.
type Fault int

const (
	// None is that it is done.
	None Fault = iota
	// Refused is that it isn't done, and fails.
	Refused
	// Lost is that it is done, and fails.
	Lost
	// Late is that it fails, and is done when the next but one has been.
	Late
	// Twice is that it is done now, and once more when the next but one has been.
	Twice
)

// A Faulty is a Bucket that fails as it is told. It is safe for concurrent use.
type Faulty struct {
	bucket.Bucket

	mu    sync.Mutex
	fault func(op, name string) Fault // +checklocks:mu
	late  []late                      // +checklocks:mu
	calls int                         // that have changed something, or should have  +checklocks:mu
	gets  int64                       // bytes that were read  +checklocks:mu
}

// late is a change that is still to come.
type late struct {
	after int
	do    func() error
}

// NewFaulty returns a Faulty before a Bucket. Each call of Put, Delete, Get and List asks fault, which may be nil: of the latter two all
// faults are Refused.
func NewFaulty(b bucket.Bucket, fault func(op, name string) Fault) *Faulty {
	return &Faulty{Bucket: b, fault: fault}
}

// Set replaces what says which calls fail.
func (f *Faulty) Set(fault func(op, name string) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Changes returns how many calls there were that change something.
func (f *Faulty) Changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Read returns how many bytes of objects were read.
func (f *Faulty) Read() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets
}

// ask returns the fault of a call.
func (f *Faulty) ask(op, name string) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		return None
	}
	return f.fault(op, name)
}

// change makes a change as its fault says.
func (f *Faulty) change(op, name string, do func() error) error {
	fault := f.ask(op, name)
	f.mu.Lock()
	f.calls++
	now := f.calls
	var due []func() error
	for len(f.late) > 0 && f.late[0].after < now {
		due = append(due, f.late[0].do)
		f.late = f.late[1:]
	}
	if fault == Late || fault == Twice {
		f.late = append(f.late, late{now + 1, do})
	}
	f.mu.Unlock()
	var err error
	if fault != Refused && fault != Late {
		err = do()
	}
	for _, d := range due {
		_ = d() // its caller was told something long ago
	}
	if fault != None && fault != Twice {
		return ErrInjected
	}
	return err
}

// Put stores an object, or fails.
func (f *Faulty) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	data, err := io.ReadAll(io.NewSectionReader(body, 0, body.Size())) // it may be stored late
	if err != nil {
		return err
	}
	return f.change("put", name, func() error {
		return bucket.PutBytes(context.WithoutCancel(ctx), f.Bucket, name, data, how)
	})
}

// Delete removes an object, or fails.
func (f *Faulty) Delete(ctx context.Context, name string) error {
	return f.change("delete", name, func() error { return f.Bucket.Delete(context.WithoutCancel(ctx), name) })
}

// Get reads an object, or fails.
func (f *Faulty) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if f.ask("get", name) != None {
		return nil, bucket.Object{}, ErrInjected
	}
	in, o, err := f.Bucket.Get(ctx, name, offset, length)
	if err != nil {
		return nil, o, err
	}
	return &counted{in, f}, o, nil
}

// counted counts what is read.
type counted struct {
	io.ReadCloser
	f *Faulty
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.gets += int64(n)
	return n, err
}

// List lists objects, or fails.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	if f.ask("list", prefix) != None {
		return func(yield func(bucket.Object, error) bool) { yield(bucket.Object{}, ErrInjected) }
	}
	return f.Bucket.List(ctx, prefix)
}
