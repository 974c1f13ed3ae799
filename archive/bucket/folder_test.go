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

// TestFolderReads tests that reading a folder makes nothing in it, nor the folder, and changes nothing that is there, so that it works on one that can't be written to.
func TestFolderReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	read := func(b bucket.Bucket) (objects int) {
		t.Helper()
		for _, prefix := range []string{"", "deep/"} {
			for _, err := range b.List(t.Context(), prefix) {
				if err != nil {
					t.Fatal(err)
				}
				objects++
			}
		}
		if _, _, err := bucket.GetBytes(t.Context(), b, "none", 0, -1); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return objects
	}
	if n := read(open(t, dir)); n != 0 {
		t.Errorf("%d objects", n)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder was made:", err)
	}
	if err := bucket.PutBytes(t.Context(), open(t, dir), "deep/a", nil, bucket.Once); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, ".unfinished", "left")
	then := time.Now().Add(-25 * time.Hour)
	if err := errors.Join(os.WriteFile(left, nil, 0o600), os.Chtimes(left, then, then)); err != nil {
		t.Fatal(err)
	}
	if n := read(open(t, dir)); n != 2 {
		t.Errorf("%d objects, want one with each prefix", n)
	}
	if _, err := os.Stat(left); err != nil {
		t.Error("reading has tidied up:", err)
	}
}

// TestFolderTidies tests that the first Put to a folder removes what crashes left there, and nothing that another process is writing.
func TestFolderTidies(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	if err := bucket.PutBytes(t.Context(), b, "a", nil, bucket.Once); err != nil {
		t.Fatal(err)
	}
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
	if err := bucket.PutBytes(t.Context(), open(t, dir), "b", nil, bucket.Once); err != nil {
		t.Fatal(err)
	}
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
