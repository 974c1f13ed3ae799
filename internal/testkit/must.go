package testkit

import "testing"

// Must fails the test, and ends it, if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Second returns the error of a call with two results: Second(f()).
func Second[T any](_ T, err error) error { return err }
