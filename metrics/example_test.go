package metrics_test

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// numbers is a Sink that keeps the sums. The map is made once and only read later.
type numbers map[*metrics.Metric]*atomic.Int64

func newNumbers(ms []*metrics.Metric) numbers {
	n := numbers{}
	for _, m := range ms {
		n[m] = new(atomic.Int64)
	}
	return n
}

func (n numbers) Add(m *metrics.Metric, by int64) {
	if sum := n[m]; sum != nil {
		sum.Add(by)
	}
}

func (n numbers) Observe(m *metrics.Metric, d time.Duration) { n.Add(m, int64(d)) }

// A Sink is a few lines.
func ExampleSink() {
	doors := &metrics.Metric{Kind: metrics.Counter, Name: "room_doors", Help: "Doors that were opened"}
	sums := newNumbers([]*metrics.Metric{doors})
	var sink metrics.Sink = sums
	sink.Add(doors, 2)
	sink.Add(doors, 1)
	fmt.Println(doors.Name, sums[doors].Load())
	// Output: room_doors 3
}
