package s3server

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/archive/bucket/s3"
)

func TestServer(t *testing.T) {
	s, n := newServer(t), 0
	buckettest.Run(t, func(*testing.T) bucket.Bucket {
		n++
		return s.open(fmt.Sprint("of/", n))
	})
}

// TestOpenRefuses tests what Open says of this server when it can't be used.
func TestOpenRefuses(t *testing.T) {
	s := newServer(t)
	s.open("") // it answers
	for _, c := range []struct {
		url, key string
		want     error
	}{
		{"s3://nothing", credentials.AccessKeyID, s3.ErrNoBucket},
		{"s3://backups", "stranger", s3.ErrAccess},
	} {
		opts := &s3.Options{Endpoint: "http://" + s.address, Credentials: &s3.Credentials{AccessKeyID: c.key, SecretAccessKey: credentials.SecretAccessKey}}
		if _, err := s3.Open(t.Context(), c.url, opts); !errors.Is(err, c.want) {
			t.Errorf("%s as %s: %v", c.url, c.key, err)
		}
	}
}

// A write is a Put of a writer that is over.
type write struct {
	name string
	data []byte
	won  bool
}

// TestKilled tests that two writers of the same names, while the server is killed again and again, are told which of them stored each
// object, and that it is stored as a whole.
func TestKilled(t *testing.T) {
	const writers, objects, kills = 2, 60, 10
	s := newServer(t)
	writes := make(chan write)
	var wg sync.WaitGroup
	for w := range writers {
		b := s.open("killed")
		wg.Go(func() {
			for i := range objects {
				data := fmt.Appendf(nil, "object %d of writer %d", i, w)
				if i%10 == 9 {
					data = bytes.Repeat(append(data, '\n'), 20<<20/len(data)) // in parts
				}
				name := fmt.Sprintf("log/%03d", i)
				err := bucket.PutBytes(t.Context(), b, name, data, bucket.Once)
				if err != nil && !errors.Is(err, bucket.ErrExists) {
					t.Errorf("writer %d: %v", w, err)
				}
				writes <- write{name, data, err == nil}
			}
		})
	}
	go func() { wg.Wait(); close(writes) }()
	stored, n := map[string][]byte{}, 0
	for w := range writes {
		if n++; n%(writers*objects/kills) == 0 {
			s.kill()
			s.start()
		}
		if !w.won {
			continue
		}
		if stored[w.name] != nil {
			t.Errorf("both writers stored %s", w.name)
		}
		stored[w.name] = w.data
	}
	b := s.open("killed")
	for i := range objects {
		name := fmt.Sprintf("log/%03d", i)
		data, _, err := bucket.GetBytes(t.Context(), b, name, 0, -1)
		if err != nil || !bytes.Equal(data, stored[name]) {
			t.Errorf("%s: %d bytes are stored, a writer was told of %d: %v", name, len(data), len(stored[name]), err)
		}
	}
}
