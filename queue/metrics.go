package queue

import "github.com/greenroomdb/greenroom/metrics"

// Metrics returns what a Queue tells Options.Metrics, for a Sink that wants to know
// beforehand.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{
		metricEnqueued, metricDuplicate, metricReplaced, metricReceived, metricCompleted, metricReturned,
		metricExpired, metricDead, metricRedriven, metricDeleted, metricQuarantined, metricWait,
	}
}

var (
	metricEnqueued    = messages("enqueued")
	metricDuplicate   = messages("duplicate")
	metricReplaced    = messages("replaced")
	metricReceived    = messages("received")
	metricCompleted   = messages("completed")
	metricReturned    = messages("returned")
	metricExpired     = messages("expired")
	metricDead        = messages("dead")
	metricRedriven    = messages("redriven")
	metricDeleted     = messages("deleted")
	metricQuarantined = messages("quarantined")

	metricWait = metrics.NewTimer("queue_wait", "How long messages were there when they were handed out")
)

var messages = metrics.Labelled("queue_messages", "what",
	"Messages, by what happened to them; a dead letter, and a message that is made of one, is one more that is enqueued")
