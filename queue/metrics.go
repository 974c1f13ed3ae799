package queue

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a Queue tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricEnqueued, metricDuplicate, metricReceived, metricCompleted, metricReturned,
		metricExpired, metricDead, metricDeleted, metricQuarantined, metricWait,
	}
}

var (
	metricEnqueued    = messages("enqueued")
	metricDuplicate   = messages("duplicate")
	metricReceived    = messages("received")
	metricCompleted   = messages("completed")
	metricReturned    = messages("returned")
	metricExpired     = messages("expired")
	metricDead        = messages("dead")
	metricDeleted     = messages("deleted")
	metricQuarantined = messages("quarantined")

	metricWait = &metrics.Metric{Kind: metrics.Timer, Name: "queue_wait",
		Help: "How long messages were there when they were handed out"}
)

func messages(what string) *metrics.Metric {
	return &metrics.Metric{Name: "queue_messages", Label: "what", Value: what,
		Help: "Messages, by what happened to them; a dead letter is one more that is enqueued"}
}

func (q *Queue) count(m *metrics.Metric, n int64) {
	if q.meter != nil && n > 0 {
		q.meter.Add(m, n)
	}
}

func (q *Queue) observe(m *metrics.Metric, d time.Duration) {
	if q.meter != nil {
		q.meter.Observe(m, max(d, 0))
	}
}
