package archive

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket/s3"
	"github.com/greenroomdb/greenroom/internal/s3fake"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestFaultsS3 is TestFaults over an S3 server whose requests are refused, cut off, answered by half, or done late.
func TestFaultsS3(t *testing.T) {
	t.Parallel()
	seen := map[s3fake.Fault]int{}
	seeds := uint64(testkit.Pick(2, 3, 40))
	for seed := range seeds {
		url, f := s3fake.Start(t)
		b, err := s3.Open(t.Context(), url, &s3.Options{
			Credentials: &s3.Credentials{AccessKeyID: s3fake.AccessKeyID, SecretAccessKey: s3fake.SecretAccessKey},
			Patience:    []time.Duration{-1, 50 * time.Millisecond, 150 * time.Millisecond}[seed%3], // the Writer tries again, the bucket, or both
		})
		if err != nil {
			t.Fatal(err)
		}
		m := newOnCrashDisk(t, 200+seed, b)
		rnd := rand.New(rand.NewPCG(seed, 5))
		var deck []s3fake.Fault // is dealt until it is empty, so that few requests meet each fault
		f.Plan(func(r *http.Request) s3fake.Fault {
			if len(deck) == 0 {
				for _, i := range rnd.Perm(len(s3fake.Faulty)) {
					deck = append(deck, s3fake.Faulty[i])
				}
			}
			fault := deck[0]
			if fault == s3fake.Late && r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "" {
				return s3fake.None
			}
			if rnd.IntN(4) > 0 {
				return s3fake.None
			}
			deck = deck[1:]
			return fault
		})
		m.lives(seed, 6, 50*time.Millisecond)
		unseen := func(fault s3fake.Fault) bool { return seen[fault]+f.Seen(fault) == 0 }
		// A machine may be too quick for some.
		for end := time.Now().Add(testkit.Patience(30 * time.Second)); seed == seeds-1 && slices.ContainsFunc(s3fake.Faulty, unseen) && time.Now().Before(end); {
			m.lives(seed, 1, 50*time.Millisecond)
		}
		for _, fault := range s3fake.Faulty {
			seen[fault] += f.Seen(fault)
		}
		f.Plan(nil)
		m.goesOn(seed)
	}
	for _, fault := range s3fake.Faulty {
		if seen[fault] == 0 {
			t.Errorf("no request was %v", fault)
		}
	}
	t.Logf("requests with faults: %v", seen)
}
