package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/buckettest"
	"github.com/greenroomdb/greenroom/archive/bucket/s3"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/internal/s3fake"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// options are those of the tests: the fake's credentials, and a patience that a busy machine doesn't exhaust.
func options() *s3.Options {
	return &s3.Options{
		Credentials: &s3.Credentials{AccessKeyID: s3fake.AccessKeyID, SecretAccessKey: s3fake.SecretAccessKey},
		Patience:    testkit.Patience(time.Second),
	}
}

// open opens the bucket of a URL.
func open(t *testing.T, url string) bucket.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), url, options())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestServer(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(t *testing.T) bucket.Bucket {
		url, _ := s3fake.Start(t)
		return open(t, url)
	})
}

// TestPlainServer runs the suite where larger objects can't be stored conditionally in parts.
func TestPlainServer(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(t *testing.T) bucket.Bucket {
		url, f := s3fake.Start(t)
		f.Lack(s3fake.PartsConditions)
		return open(t, url)
	})
}

// TestRandomFaults runs the suite while a third of all requests fail, each in another way.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testkit.Pick(1, 1, 10)) {
		buckettest.Run(t, func(t *testing.T) bucket.Bucket {
			t.Parallel()
			url, f := s3fake.Start(t)
			b := open(t, url)
			r := rand.New(rand.NewPCG(seed, uint64(len(t.Name()))))
			f.Plan(func(req *http.Request) s3fake.Fault {
				fault := s3fake.Faulty[r.IntN(len(s3fake.Faulty))]
				if r.IntN(3) > 0 || fault == s3fake.Late && req.Header.Get("If-None-Match") == "" {
					return s3fake.None // only what is conditional may come late
				}
				return fault
			})
			return b
		})
	}
}

// content is what a test stores: of two parts if large.
func content(large bool) []byte {
	if !large {
		return []byte("what is to be stored")
	}
	return bytes.Repeat([]byte("0123456789abcdef"), 17<<20/16)
}

// operations are those whose every request the next test breaks. Each returns an error if it doesn't end as it would without faults.
var operations = map[string]func(ctx context.Context, b bucket.Bucket) error{
	"Replace": func(ctx context.Context, b bucket.Bucket) error {
		return store(ctx, b, "old", content(false), bucket.Replacing)
	},
	"Once": func(ctx context.Context, b bucket.Bucket) error {
		return store(ctx, b, "new", content(false), bucket.Once)
	},
	"OnceMore": func(ctx context.Context, b bucket.Bucket) error { return refused(ctx, b, content(false)) },
	"Parts": func(ctx context.Context, b bucket.Bucket) error {
		return store(ctx, b, "new", content(true), bucket.Once)
	},
	"PartsReplace": func(ctx context.Context, b bucket.Bucket) error {
		return store(ctx, b, "old", content(true), bucket.Replacing)
	},
	"PartsMore": func(ctx context.Context, b bucket.Bucket) error { return refused(ctx, b, content(true)) },
	"Get":       func(ctx context.Context, b bucket.Bucket) error { return holds(ctx, b, "old", []byte("the old one")) },
	"GetNone": func(ctx context.Context, b bucket.Bucket) error {
		if _, _, err := b.Get(ctx, "new", 0, -1); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errors.New("Get of no object"), err)
		}
		return nil
	},
	"List": func(ctx context.Context, b bucket.Bucket) error {
		var names []string
		for o, err := range b.List(ctx, "") {
			if err != nil {
				return err
			}
			names = append(names, o.Name)
		}
		if got := strings.Join(names, " "); got != "old" {
			return errors.New("List: " + got)
		}
		return nil
	},
	"Delete": func(ctx context.Context, b bucket.Bucket) error {
		if err := b.Delete(ctx, "old"); err != nil {
			return err
		}
		if _, _, err := b.Get(ctx, "old", 0, -1); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errors.New("Get of a deleted object"), err)
		}
		return nil
	},
}

// store stores an object and reads it back.
func store(ctx context.Context, b bucket.Bucket, name string, data []byte, how bucket.How) error {
	if err := bucket.PutBytes(ctx, b, name, data, how); err != nil {
		return err
	}
	return holds(ctx, b, name, data)
}

// refused stores an object that exists already.
func refused(ctx context.Context, b bucket.Bucket, data []byte) error {
	if err := bucket.PutBytes(ctx, b, "old", data, bucket.Once); !errors.Is(err, bucket.ErrExists) {
		return errors.Join(errors.New("Put of an object that exists"), err)
	}
	return holds(ctx, b, "old", []byte("the old one"))
}

// holds reads an object.
func holds(ctx context.Context, b bucket.Bucket, name string, want []byte) error {
	got, _, err := bucket.GetBytes(ctx, b, name, 0, -1)
	if err == nil && !bytes.Equal(got, want) {
		err = errors.New("other bytes are stored")
	}
	return err
}

// TestEveryRequest breaks each request of each operation, in each way: the operation ends as if nothing had happened.
func TestEveryRequest(t *testing.T) {
	t.Parallel()
	for name, operation := range operations {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "Parts") {
				testkit.OnlyLong(t, "it sends a gigabyte")
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			for _, fault := range s3fake.Faulty {
				if fault == s3fake.Late && strings.HasSuffix(name, "Replace") {
					continue // what comes late may win there
				}
				url, f := s3fake.Start(t)
				b := open(t, url)
				wg.Go(func() {
					if err := breakEach(t.Context(), b, f, fault, operation); err != nil {
						t.Errorf("%v: %v", fault, err)
					}
					if n := f.Uploads(); n > 1 && fault != s3fake.Late {
						t.Errorf("%v: %d uploads were left", fault, n)
					}
				})
			}
		})
	}
}

// breakEach does an operation again and again, and breaks its first request, then its second, until it has no more.
func breakEach(ctx context.Context, b bucket.Bucket, f *s3fake.Faults, fault s3fake.Fault, operation func(context.Context, bucket.Bucket) error) error {
	for at := 1; ; at++ {
		if err := errors.Join(bucket.PutBytes(ctx, b, "old", []byte("the old one"), bucket.Replacing), b.Delete(ctx, "new")); err != nil {
			return err
		}
		before, n := f.Seen(fault), 0
		f.Plan(func(*http.Request) s3fake.Fault {
			if n++; n == at {
				return fault
			}
			return s3fake.None
		})
		err := operation(ctx, b)
		f.Flush()
		f.Plan(nil)
		if err != nil {
			return fmt.Errorf("fault at request %d: %w", at, err)
		}
		if f.Seen(fault) == before {
			return nil
		}
	}
}

// TestFalseCompletion tests that a Put doesn't believe a server that says that an upload in parts is complete.
func TestFalseCompletion(t *testing.T) {
	url, f := s3fake.Start(t)
	b := open(t, url)
	for _, how := range []bucket.How{bucket.Once, bucket.Replacing} {
		f.Lack(s3fake.Completion)
		if err := store(t.Context(), b, "a", content(true), how); err != nil {
			t.Error(how, err)
		}
	}
	f.Lack(s3fake.Completion)
	if err := bucket.PutBytes(t.Context(), b, "a", content(true), bucket.Once); !errors.Is(err, bucket.ErrExists) {
		t.Error(err)
	}
}

// TestUnreachable tests that operations end when a server breaks for good, and that nothing is stored by half.
func TestUnreachable(t *testing.T) {
	for _, fault := range s3fake.Faulty {
		if fault == s3fake.Trickle {
			continue // it fails nothing
		}
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			url, f := s3fake.Start(t)
			opts := options()
			opts.Patience = 100 * time.Millisecond
			b, err := s3.Open(t.Context(), url, opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := bucket.PutBytes(t.Context(), b, "there", content(false), bucket.Once); err != nil {
				t.Fatal(err)
			}
			f.Plan(func(*http.Request) s3fake.Fault { return fault })
			err = bucket.PutBytes(t.Context(), b, "new", content(false), bucket.Once)
			// The answer to a Put has no body that could be too short.
			if fault != s3fake.Short && !errors.Is(err, s3.ErrUnreachable) {
				t.Errorf("Put: %v", err)
			}
			if _, _, err := bucket.GetBytes(t.Context(), b, "there", 0, -1); !errors.Is(err, s3.ErrUnreachable) && fault != s3fake.Short && fault != s3fake.CutBody {
				t.Errorf("Get: %v", err)
			}
			f.Plan(nil)
			f.Flush()
			err = bucket.PutBytes(t.Context(), b, "new", []byte("another's"), bucket.Once)
			want := []byte("another's")
			if errors.Is(err, bucket.ErrExists) {
				want, err = content(false), nil
			}
			if err := errors.Join(err, holds(t.Context(), b, "new", want)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSameBytes tests that of two writers of the same bytes one is told that the object exists, although the answer to it is lost.
func TestSameBytes(t *testing.T) {
	url, f := s3fake.Start(t)
	one, other := open(t, url), open(t, url)
	for _, fault := range []s3fake.Fault{s3fake.CutAnswer, s3fake.Late} {
		name := fault.String()
		if err := bucket.PutBytes(t.Context(), one, name, content(false), bucket.Once); err != nil {
			t.Fatal(err)
		}
		n := 0
		f.Plan(func(*http.Request) s3fake.Fault {
			if n++; n == 1 {
				return fault
			}
			return s3fake.None
		})
		if err := bucket.PutBytes(t.Context(), other, name, content(false), bucket.Once); !errors.Is(err, bucket.ErrExists) {
			t.Errorf("%v: %v", fault, err)
		}
	}
}

// TestOpenRefuses tests what Open says of buckets that are of no use.
func TestOpenRefuses(t *testing.T) {
	url, _ := s3fake.Start(t)
	unlike, f := s3fake.Start(t)
	f.Lack(s3fake.Forbidden)
	wrong := &s3.Credentials{AccessKeyID: "stranger", SecretAccessKey: "x"}
	closed := "s3://backups?region=us-east-1&endpoint=http://127.0.0.1:1"
	for _, c := range []struct {
		what, url   string
		credentials *s3.Credentials
		want        error
	}{
		{"wrong credentials", url, wrong, s3.ErrAccess},
		{"wrong credentials, a server that finds none", unlike, wrong, s3.ErrAccess},
		{"no such bucket", strings.Replace(url, "s3://backups", "s3://nothing", 1), nil, s3.ErrNoBucket},
		{"nothing listens", closed, nil, s3.ErrUnreachable},
		{"another scheme", "http://backups", nil, s3.ErrURL},
		{"no bucket", "s3:///archive", nil, s3.ErrURL},
		{"a bad name", "s3://B_", nil, s3.ErrURL},
		{"a bad prefix", "s3://backups/.hidden", nil, s3.ErrURL},
		{"an unknown parameter", "s3://backups?pathstyle=true", nil, s3.ErrURL},
		{"a parameter twice", "s3://backups?region=a&region=b", nil, s3.ErrURL},
		{"a bad style", "s3://backups?path-style=maybe", nil, s3.ErrURL},
		{"a bad endpoint", "s3://backups?endpoint=localhost:9000", nil, s3.ErrURL},
	} {
		opts := options()
		opts.Patience = 100 * time.Millisecond
		if c.credentials != nil {
			opts.Credentials = c.credentials
		}
		if _, err := s3.Open(t.Context(), c.url, opts); !errors.Is(err, c.want) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestUnconditional tests that servers are refused on which two writers may mix.
func TestUnconditional(t *testing.T) {
	for _, lack := range []s3fake.Lack{s3fake.Conditions, s3fake.Metadata, s3fake.Implementation} {
		url, f := s3fake.Start(t)
		f.Lack(lack)
		b := open(t, url)
		if err := bucket.PutBytes(t.Context(), b, "new", content(false), bucket.Once); !errors.Is(err, s3.ErrUnconditional) || !errors.Is(err, errkind.ErrUnsupported) {
			t.Errorf("lack %d: %v", lack, err)
		}
	}
}

// TestProbeLeavesNothing tests that what the first Put stores to try the server isn't listed, whether it could be removed or not.
func TestProbeLeavesNothing(t *testing.T) {
	url, f := s3fake.Start(t)
	put := func(b bucket.Bucket) error {
		return bucket.PutBytes(t.Context(), b, "new", content(false), bucket.Replacing)
	}
	empty := func(b bucket.Bucket) {
		for o, err := range b.List(t.Context(), "") {
			if o.Name != "new" || err != nil {
				t.Errorf("%+v, %v", o, err)
			}
		}
	}
	b := open(t, url)
	if err := put(b); err != nil {
		t.Fatal(err)
	}
	empty(b)
	f.Plan(func(r *http.Request) s3fake.Fault {
		if r.Method == http.MethodDelete {
			return s3fake.Busy
		}
		return s3fake.None
	})
	opts := options()
	opts.Patience = -1
	b, err := s3.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(b); !errors.Is(err, s3.ErrUnreachable) {
		t.Errorf("Put that can't remove what it has tried: %v", err)
	}
	f.Plan(nil)
	empty(b)
	if err := put(b); err != nil {
		t.Error(err)
	}
	if n := f.Uploads(); n > 1 {
		t.Errorf("%d uploads are left", n)
	}
}

// TestReads tests that what reads a bucket asks for nothing that changes it, so that it needs no right to.
func TestReads(t *testing.T) {
	url, f := s3fake.Start(t)
	if err := bucket.PutBytes(t.Context(), open(t, url), "old", content(false), bucket.Once); err != nil {
		t.Fatal(err)
	}
	f.Plan(func(r *http.Request) s3fake.Fault {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		return s3fake.None
	})
	b := open(t, url)
	if err := holds(t.Context(), b, "old", content(false)); err != nil {
		t.Error(err)
	}
	if err := operations["List"](t.Context(), b); err != nil {
		t.Error(err)
	}
}

// TestEnvironment tests that the environment and the files of other programs say what the URL doesn't.
func TestEnvironment(t *testing.T) {
	url, _ := s3fake.Start(t)
	_, endpoint, _ := strings.Cut(strings.ReplaceAll(strings.ReplaceAll(url, "%3A", ":"), "%2F", "/"), "endpoint=")
	endpoint, _, _ = strings.Cut(endpoint, "&")
	file := filepath.Join(t.TempDir(), "credentials")
	testkit.Must(t, os.WriteFile(file, []byte("[backups]\naws_access_key_id = "+s3fake.AccessKeyID+"\naws_secret_access_key = "+s3fake.SecretAccessKey+"\n"), 0o600))
	for name, env := range map[string]map[string]string{
		"keys":    {"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3fake.AccessKeyID, "AWS_SECRET_ACCESS_KEY": s3fake.SecretAccessKey},
		"profile": {"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_PROFILE": "backups", "AWS_SHARED_CREDENTIALS_FILE": file, "AWS_EC2_METADATA_DISABLED": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_CONFIG_FILE", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
				t.Setenv(variable, "")
			}
			for variable, value := range env {
				t.Setenv(variable, value)
			}
			b, err := s3.Open(t.Context(), "s3://backups/archive", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := store(t.Context(), b, name, content(false), bucket.Once); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplacedWhileRead tests that a reader never mixes two objects.
func TestReplacedWhileRead(t *testing.T) {
	url, f := s3fake.Start(t)
	b := open(t, url)
	if err := bucket.PutBytes(t.Context(), b, "a", bytes.Repeat([]byte("one"), 1<<20), bucket.Replacing); err != nil {
		t.Fatal(err)
	}
	n := 0
	f.Plan(func(*http.Request) s3fake.Fault {
		if n++; n == 1 {
			return s3fake.CutBody
		}
		return s3fake.None
	})
	in, _, err := b.Get(t.Context(), "a", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.PutBytes(t.Context(), b, "a", bytes.Repeat([]byte("two"), 1<<20), bucket.Replacing); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(in)
	if err == nil || bytes.Contains(data, []byte("two")) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoRanges tests that a server that answers with more than was asked for isn't believed.
func TestNoRanges(t *testing.T) {
	url, f := s3fake.Start(t)
	f.Lack(s3fake.Ranges)
	b := open(t, url)
	if err := bucket.PutBytes(t.Context(), b, "a", content(false), bucket.Once); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Get(t.Context(), "a", 3, 4); err == nil || errors.Is(err, s3.ErrUnreachable) {
		t.Error("Get of a range, answered with the whole:", err)
	}
}

// TestSource tests that an error of the caller's reader ends a Put, and is its error.
func TestSource(t *testing.T) {
	url, f := s3fake.Start(t)
	b := open(t, url)
	for _, size := range []int64{10, 40 << 20} {
		err := b.Put(t.Context(), "a", io.NewSectionReader(broken{}, 0, size), bucket.Once)
		if !errors.Is(err, errBroken) || errors.Is(err, s3.ErrUnreachable) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, _, err := b.Get(t.Context(), "a", 0, -1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d bytes: Get: %v", size, err)
		}
	}
	if n := f.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

var errBroken = errors.New("a broken disk")

// broken can't be read.
type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

// TestCanceled tests that operations end with their contexts.
func TestCanceled(t *testing.T) {
	url, f := s3fake.Start(t)
	b := open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	f.Plan(func(*http.Request) s3fake.Fault {
		cancel()
		return s3fake.Busy
	})
	if err := bucket.PutBytes(ctx, b, "a", content(false), bucket.Once); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, err := range b.List(ctx, "") {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
