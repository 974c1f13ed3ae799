package main

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
)

// TestOutage: every call of a bucket fails during an outage, and none after.
func TestOutage(t *testing.T) {
	within, err := bucket.Folder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := &outage{Bucket: within}
	calls := func(ctx context.Context) (errs []error) {
		_, _, err := bucket.GetBytes(ctx, o, "a", 0, -1)
		errs = append(errs, bucket.PutBytes(ctx, o, "a", []byte("1"), bucket.Replacing), err, o.Delete(ctx, "b"))
		for _, err := range o.List(ctx, "") {
			errs = append(errs, err)
		}
		return errs
	}
	if err := bucket.PutBytes(t.Context(), o, "a", nil, bucket.Once); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{nil, errOutage, nil} {
		o.now.Store(want != nil)
		got := calls(t.Context())
		if len(got) != 4 {
			t.Fatalf("%d calls, want 4", len(got))
		}
		for i, err := range got {
			if !errors.Is(err, want) {
				t.Errorf("call %d: %v, want %v", i, err, want)
			}
		}
	}
}
