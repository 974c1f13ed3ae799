package buckettest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// A Memory is a Bucket in memory. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	objects map[string]stored // +checklocks:mu
}

// stored is an object; its bytes never change.
type stored struct {
	data []byte
	at   time.Time
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{objects: map[string]stored{}} }

// Copy returns a Memory with the same objects.
func (m *Memory) Copy() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{objects: maps.Clone(m.objects)}
}

// Put stores an object.
func (m *Memory) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return err
	}
	data, err := io.ReadAll(io.NewSectionReader(body, 0, body.Size()))
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.objects[name]; there && how == bucket.Once {
		return bucket.ErrExists
	}
	m.objects[name] = stored{data, time.Now()}
	return nil
}

// Get reads an object.
func (m *Memory) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, bucket.Object, error) {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return nil, bucket.Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.objects[name]
	if !ok {
		return nil, bucket.Object{}, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	data := s.data[min(offset, int64(len(s.data))):]
	if length >= 0 && length < int64(len(data)) {
		data = data[:length]
	}
	return io.NopCloser(bytes.NewReader(data)), bucket.Object{Name: name, Size: int64(len(s.data)), Modified: s.at}, nil
}

// List lists the objects that are there when it begins.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[bucket.Object, error] {
	return func(yield func(bucket.Object, error) bool) {
		all := m.Copy().objects
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if err := ctx.Err(); err != nil {
				yield(bucket.Object{}, err)
				return
			}
			s := all[name]
			if strings.HasPrefix(name, prefix) && !yield(bucket.Object{Name: name, Size: int64(len(s.data)), Modified: s.at}, nil) {
				return
			}
		}
	}
}

// Delete removes an object.
func (m *Memory) Delete(ctx context.Context, name string) error {
	if err := cmp.Or(bucket.CheckName(name), ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}
