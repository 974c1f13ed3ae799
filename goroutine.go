package greenroom

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"

	"github.com/petermattis/goid"
)

// goroutine returns the number of the calling goroutine, and 0 if goroutines can't be told apart. It is the second sign that
// a transaction would wait for itself; the first one is the transaction's context.
func goroutine() int64 {
	if !numbered() {
		return 0
	}
	return goid.Get()
}

// numbered reports whether goid reads the numbers of goroutines. It reads them from a structure of Go's runtime, which may
// be laid out otherwise in a release that goid doesn't know.
var numbered = sync.OnceValue(func() bool { return numbers(goid.Get) })

// numbers reports whether get returns the number that the runtime prints, on this goroutine and on others.
func numbers(get func() int64) bool {
	const others = 3
	right := get() == printedNumber()
	answers := make(chan bool, others)
	for range others {
		go func() { answers <- get() == printedNumber() }()
	}
	for range others {
		right = <-answers && right
	}
	return right
}

// printedNumber returns the number of the calling goroutine as a stack trace begins with it: "goroutine 7 [running]:". Without such a trace it
// is 0.
func printedNumber() int64 {
	var buf [64]byte
	fields := bytes.Fields(buf[:runtime.Stack(buf[:], false)])
	if len(fields) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
