package workflow

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Metrics returns what a Workflow tells Options.Metrics, for a Sink that wants to know beforehand. What is counted has landed.
func Metrics() []*metrics.Metric {
	return []*metrics.Metric{metricStarted, metricCompleted, metricFailed, metricCancelled, metricStepTime, metricStepsDone, metricStepsFailed}
}

var (
	metricStarted   = workflows("started")
	metricCompleted = workflows("completed")
	metricFailed    = workflows("failed") // and undone, if there was something to undo
	metricCancelled = workflows("cancelled")

	metricStepTime    = metrics.NewTimer("workflow_step", "How long attempts at steps took")
	metricStepsDone   = attempts("done")
	metricStepsFailed = attempts("failed")
)

var workflows = metrics.Labelled("workflow_runs", "what",
	"Workflows, by what happened to them: a workflow that is started anew is started once more")

var attempts = metrics.Labelled("workflow_attempts", "what",
	"Attempts at steps, by what became of them")

// countAttempt counts an attempt that took d and ended with err.
func countAttempt(m metrics.Meter, d time.Duration, err error) {
	m.Observe(metricStepTime, d)
	if err == nil {
		m.Count(metricStepsDone, 1)
	} else {
		m.Count(metricStepsFailed, 1)
	}
}
