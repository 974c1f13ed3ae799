package main

import "testing"

func TestCounted(t *testing.T) {
	marked := map[string]int{"batch/limits.go": 78}
	for _, tt := range []struct {
		profile string
		want    int
	}{
		{"mode: count\nexample.org/x/batch/limits.go:75.2,78.20 2 3\nexample.org/x/batch/limits.go:70.2,74.20 2 9\n", 3},
		{"mode: count\nexample.org/x/batch/limits.go:75.2,78.20 2 0\n", 0},
		{"mode: count\nexample.org/x/batch/limits.go:79.2,80.20 2 1\n", 0},
		{"mode: count\nexample.org/x/batch/split.go:75.2,78.20 2 1\n", 0},
	} {
		if got, err := counted(tt.profile, marked); got != tt.want || err != nil {
			t.Errorf("%q: %d, %v, want %d", tt.profile, got, err, tt.want)
		}
	}
	if _, err := counted("mode: count\na/b.go:x\n", marked); err == nil {
		t.Error("a profile that can't be read is no error")
	}
}

func TestSplits(t *testing.T) {
	for _, tt := range []struct {
		test
		splits, surely bool
	}{
		{test{"", 0, 0}, false, false}, {test{"", 1, 0}, true, true}, {test{"", 100, 100}, false, false},
		{test{"", 104, 100}, false, false}, {test{"", 150, 100}, true, false}, {test{"", 300, 100}, true, true},
	} {
		if tt.test.splits() != tt.splits || tt.surely != tt.test.surely() {
			t.Errorf("%d with the limit, %d without: %v, %v", tt.with, tt.without, tt.test.splits(), tt.test.surely())
		}
	}
}
