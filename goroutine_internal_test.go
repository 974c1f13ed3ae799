package greenroom

import (
	"testing"

	"github.com/petermattis/goid"
)

// TestNumbers: numbers of goroutines are believed only if they are those that the runtime prints.
func TestNumbers(t *testing.T) {
	if !numbers(goid.Get) || goroutine() == 0 {
		t.Error("this Go's goroutines aren't told apart")
	}
	first := goid.Get()
	for name, get := range map[string]func() int64{
		"none": func() int64 { return 0 }, "one": func() int64 { return first }, "others": func() int64 { return goid.Get() + 1 },
	} {
		if numbers(get) {
			t.Errorf("%s: wrong numbers are believed", name)
		}
	}
}
