package bucket_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
)

func TestFolder(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) bucket.Bucket { return open(t, filepath.Join(t.TempDir(), "made", "here")) })
}

func open(t *testing.T, dir string) bucket.Bucket {
	t.Helper()
	b, err := bucket.Folder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFolderPrivate tests that the objects of a folder are their owner's alone.
func TestFolderPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	b := open(t, dir)
	for _, how := range []bucket.How{bucket.Once, bucket.Replacing} {
		if err := bucket.PutBytes(t.Context(), b, "deep/er/a", []byte("x"), how); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFolderTidies tests that opening a folder removes what crashes left there, and nothing that another process is writing.
func TestFolderTidies(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	old, young := filepath.Join(dir, ".unfinished", "old"), filepath.Join(dir, ".unfinished", "young")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(old, then, then); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Error("the old one is still there:", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
}

func TestMemory(t *testing.T) {
	buckettest.Run(t, func(*testing.T) bucket.Bucket { return buckettest.NewMemory() })
}

// TestLazy tests that a bucket is opened when it is needed, and again after that has failed.
func TestLazy(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) bucket.Bucket {
		tries := 0
		b := bucket.Lazy(func(context.Context) (bucket.Bucket, error) {
			if tries++; tries < 3 {
				return nil, buckettest.ErrInjected
			}
			return buckettest.NewMemory(), nil
		})
		if _, _, err := b.Get(t.Context(), "a", 0, -1); !errors.Is(err, buckettest.ErrInjected) {
			t.Fatal(err)
		}
		for _, err := range b.List(t.Context(), "") {
			if !errors.Is(err, buckettest.ErrInjected) {
				t.Fatal(err)
			}
		}
		return b
	})
}
