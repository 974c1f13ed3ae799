package archive

import (
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
)

// TestProgress tests that a Writer says how much of a base is left, and Verify how much it has read of what there is.
func TestProgress(t *testing.T) {
	b := &stuck{Bucket: buckettest.NewMemory(), hung: make(chan struct{}), goOn: make(chan struct{}), done: make(chan struct{})}
	b.call, b.name = "put", tablePrefix
	m := newModel(t, 5, b)
	m.commit(20)
	m.start()
	<-b.hung
	if s := m.w.Status(); s.Base <= 0 || s.Bytes != 0 {
		t.Errorf("before the first table is stored: %+v", s)
	}
	close(b.goOn)
	m.sync()
	if s := m.w.Status(); s.Base != 0 || s.Bytes == 0 {
		t.Errorf("when all is stored: %+v", s)
	}
	var last, all int64
	v, err := m.archive().Verify(t.Context(), func(err error) { t.Error(err) }, func(read, total int64) {
		if read < last || read > total || all > 0 && total != all {
			t.Errorf("%d of %d bytes, after %d of %d", read, total, last, all)
		}
		last, all = read, total
	})
	if err != nil || last != v.Bytes || last < all*9/10 {
		t.Errorf("%d of %d bytes are read: %+v, %v", last, all, v, err)
	}
}
