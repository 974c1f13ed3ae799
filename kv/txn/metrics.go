package txn

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// Names are the names under which transactions are counted: a DB with
// Options.Names counts those of DB.Named(name) under name, if it is one of them, and
// all others under "other".
type Names struct {
	names map[string]*metricSet
	all   []*metrics.Metric
}

// A txMetrics is what is counted of the transactions of one name. begun less ended are
// those under way.
type metricSet struct {
	begun, ended, attempts, conflicts, bytesRead, bytesWritten *metrics.Metric
	time                                                       *metrics.Metric
}

// otherTx is the name of transactions without one.
const otherTx = "other"

// NewNames returns these names, and "other".
func NewNames(names ...string) *Names {
	n := &Names{names: map[string]*metricSet{}}
	for _, name := range append(names, otherTx) {
		if n.names[name] == nil {
			n.names[name] = n.describe(name)
		}
	}
	return n
}

func (n *Names) describe(name string) *metricSet {
	metric := func(kind metrics.Kind, what, help string) *metrics.Metric {
		m := &metrics.Metric{Kind: kind, Name: what, Help: help, Labels: []metrics.Label{{Name: "transaction", Value: name}}}
		n.all = append(n.all, m)
		return m
	}
	return &metricSet{
		begun:        metric(metrics.Counter, "kv_transactions_begun", "Transactions begun"),
		ended:        metric(metrics.Counter, "kv_transactions_ended", "Transactions ended, whatever the outcome"),
		attempts:     metric(metrics.Counter, "kv_transaction_attempts", "Attempts at transactions"),
		conflicts:    metric(metrics.Counter, "kv_transaction_conflicts", "Attempts at transactions that ended because of another commit"),
		bytesRead:    metric(metrics.Counter, "kv_transaction_read_bytes", "Bytes of the keys and values that transactions read"),
		bytesWritten: metric(metrics.Counter, "kv_transaction_written_bytes", "Bytes of the keys and values that transactions committed"),
		time:         metric(metrics.Timer, "kv_transaction", "How long transactions took, with all their attempts"),
	}
}

// Metrics returns what is counted, for a Sink that wants to know beforehand.
func (n *Names) Metrics() []*metrics.Metric { return n.all }

// find returns what is counted for a name.
func (n *Names) find(name string) *metricSet {
	if m := n.names[name]; m != nil {
		return m
	}
	return n.names[otherTx]
}

// begin counts a transaction that begins; end must follow, with what it returned.
func (db *DB) begin() (begun time.Time) {
	if db.opts.Metrics == nil {
		return begun
	}
	db.meter.Count(db.name.begun, 1)
	return db.opts.Now()
}

func (db *DB) end(begun time.Time) {
	if db.opts.Metrics != nil {
		db.meter.Count(db.name.ended, 1)
		db.meter.Observe(db.name.time, db.opts.Now().Sub(begun))
	}
}
