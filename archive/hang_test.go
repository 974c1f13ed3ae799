package archive

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
)

// stuck is a bucket of which the first call of a kind, on an object whose name begins in a way, doesn't return until goOn is closed. It closes hung.
type stuck struct {
	bucket.Bucket
	hung, goOn, done chan struct{}

	mu         sync.Mutex
	call, name string // +checklocks:mu
}

// at hangs if the call is the one, and then calls do.
func (s *stuck) at(call, name string, do func() error) error {
	s.mu.Lock()
	hang := call == s.call && strings.HasPrefix(name, s.name)
	if hang {
		s.call = ""
	}
	s.mu.Unlock()
	if hang {
		close(s.hung)
		<-s.goOn
		defer close(s.done)
	}
	return do()
}

func (s *stuck) Put(ctx context.Context, name string, body *io.SectionReader, how bucket.How) error {
	return s.at("put", name, func() error { return s.Bucket.Put(context.WithoutCancel(ctx), name, body, how) })
}

func (s *stuck) Get(ctx context.Context, name string, offset, length int64) (in io.ReadCloser, o bucket.Object, err error) {
	err = s.at("get", name, func() error {
		in, o, err = s.Bucket.Get(ctx, name, offset, length)
		return err
	})
	return in, o, err
}

func (s *stuck) Delete(ctx context.Context, name string) error {
	return s.at("delete", name, func() error { return s.Bucket.Delete(context.WithoutCancel(ctx), name) })
}

func (s *stuck) List(ctx context.Context, prefix string) (all iter.Seq2[bucket.Object, error]) {
	_ = s.at("list", prefix, func() error {
		all = s.Bucket.List(ctx, prefix)
		return nil
	})
	return all
}

// TestCloseHangs tests that Close returns while a call of the bucket hangs, and that the history goes on, whether the call is done before the next Writer begins or later.
func TestCloseHangs(t *testing.T) {
	t.Parallel()
	for _, hang := range []struct{ call, name string }{
		{"list", epochPrefix}, {"put", epochPrefix}, {"put", logOf(1)}, {"put", basesOf(1)}, {"put", tablePrefix}, {"get", logOf(1)}, {"delete", logOf(1)},
	} {
		for _, late := range []bool{false, true} {
			t.Run(hang.call+" "+strings.Trim(hang.name, "/"), func(t *testing.T) {
				b := &stuck{Bucket: buckettest.NewMemory(), hung: make(chan struct{}), goOn: make(chan struct{}), done: make(chan struct{})}
				m := newModel(t, 91, b)
				m.opts.baseBytes, m.opts.mergeRuns = 10_000, 4
				m.commit(20)
				m.start()
				m.sync()
				m.stop()
				m.open()
				b.mu.Lock()
				b.call, b.name = hang.call, hang.name
				b.mu.Unlock()
				m.start()
				for hung := false; !hung; {
					m.commit(10)
					select {
					case <-b.hung:
						hung = true
					default:
					}
				}
				m.stop()
				if !late {
					close(b.goOn)
					<-b.done
				}
				m.open()
				m.start()
				m.commit(10)
				m.sync()
				if late {
					close(b.goOn)
					<-b.done
				}
				m.commit(10)
				m.wantLines(1)
				if _, err := m.archive().Verify(t.Context(), func(err error) { t.Error(err) }, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
