package kv

import (
	"time"

	"github.com/greenroomdb/greenroom/metrics"
)

// A Metered is a Reader or a Writer that says where to count what is done with typed
// keys through it. Those that aren't, or return nil, are not counted, and cost
// nothing.
type Metered interface {
	// KeySink returns the Sink, or nil.
	KeySink() metrics.Sink
}

// KeySink returns DBOptions.Metrics. See Metered.
func (tx *Tx) KeySink() metrics.Sink { return tx.db.opts.Metrics }

// KeySink returns DBOptions.Metrics. See Metered.
func (s TxSnapshot) KeySink() metrics.Sink { return s.tx.KeySink() }

// KeyMetrics are what is counted of one key type: how often one was packed, and how
// often an entry of a scan was unpacked as one. The type has them when it, or its
// pointer, has a method that returns them:
//
//	var workflowIDs = kv.NewKeyMetrics("workflow_id")
//
//	func (*WorkflowID) KeyMetrics() *kv.KeyMetrics { return workflowIDs }
type KeyMetrics struct{ packs, unpacks metrics.Metric }

// NewKeyMetrics returns the metrics of a key type. name is lower-case words with
// underscores, and no other type's.
func NewKeyMetrics(name string) *KeyMetrics {
	return &KeyMetrics{
		packs:   metrics.Metric{Name: "kv_key_packs", Label: "type", Value: name, Help: "Keys that were packed, by their type"},
		unpacks: metrics.Metric{Name: "kv_key_unpacks", Label: "type", Value: name, Help: "Keys of scans that were unpacked, by their type"},
	}
}

// Metrics returns them, for a Sink that wants to know beforehand.
func (k *KeyMetrics) Metrics() []*metrics.Metric { return []*metrics.Metric{&k.packs, &k.unpacks} }

// An op is what is done with a typed key.
type op uint8

const (
	opGet op = iota
	opExists
	opPut
	opDelete
	opDeleteSubspace
	opMutate
	opScan
	opParse // isn't counted: it asks nothing of anybody
	ops
)

var opNames = [ops]string{"get", "exists", "put", "delete", "delete subspace", "mutate", "scan", "parse"}

// String returns what a KeyError says.
func (o op) String() string { return opNames[o] }

// keyOps are the metrics of one op.
type keyOps struct {
	count, bytes metrics.Metric
	time         metrics.Metric
}

var keyOpMetrics = func() (all [opParse]keyOps) {
	values := [opParse]string{"get", "exists", "put", "delete", "delete_subspace", "mutate", "scan"}
	for o := range all {
		all[o] = keyOps{
			count: metrics.Metric{Name: "kv_key_operations", Label: "op", Value: values[o], Help: "Operations with typed keys"},
			bytes: metrics.Metric{Name: "kv_key_bytes", Label: "op", Value: values[o], Help: "Bytes of values that operations with typed keys read or wrote"},
			time: metrics.Metric{Kind: metrics.Timer, Name: "kv_key_read", Label: "op", Value: values[o],
				Help: "How long reads with typed keys took, a scan with what was done with its entries"},
		}
	}
	return all
}()

var (
	metricMatched = &metrics.Metric{Name: "kv_key_entries", Label: "entry", Value: "matched",
		Help: "Entries that scans of typed keys met, by whether they were of a type that was asked for"}
	metricSkipped = &metrics.Metric{Name: "kv_key_entries", Label: "entry", Value: "skipped", Help: metricMatched.Help}
)

// KeyOperationMetrics returns what the functions of typed keys tell a Sink, beside
// the KeyMetrics of each type.
func KeyOperationMetrics() []*metrics.Metric {
	all := []*metrics.Metric{metricMatched, metricSkipped}
	for o := range keyOpMetrics {
		k := &keyOpMetrics[o]
		all = append(all, &k.count)
		switch op(o) {
		case opGet, opScan:
			all = append(all, &k.bytes, &k.time)
		case opPut, opMutate:
			all = append(all, &k.bytes)
		case opExists:
			all = append(all, &k.time)
		}
	}
	return all
}

// A meter counts one operation; the zero meter counts nothing.
type meter struct {
	sink  metrics.Sink
	start time.Time
}

// meterOf begins to measure an operation on a Reader or a Writer.
func meterOf(x any) meter {
	sink := keySink(x)
	if sink == nil {
		return meter{}
	}
	return meter{sink, time.Now()}
}

// keySink returns the Sink of a Metered, nil for anything else.
func keySink(x any) metrics.Sink {
	if m, ok := x.(Metered); ok {
		return m.KeySink()
	}
	return nil
}

// packed counts a key that p points to.
func (m meter) packed(p any) {
	if m.sink == nil {
		return
	}
	if t, ok := p.(interface{ KeyMetrics() *KeyMetrics }); ok {
		m.sink.Add(&t.KeyMetrics().packs, 1)
	}
}

// unpacked counts an entry of a scan: p points to its key, nil if it was skipped.
func (m meter) unpacked(p any) {
	switch {
	case m.sink == nil:
		return
	case p == nil:
		m.sink.Add(metricSkipped, 1)
		return
	}
	m.sink.Add(metricMatched, 1)
	if t, ok := p.(interface{ KeyMetrics() *KeyMetrics }); ok {
		m.sink.Add(&t.KeyMetrics().unpacks, 1)
	}
}

// done counts the operation, with the bytes of the values it read or wrote.
func (m meter) done(o op, bytes int) {
	if m.sink == nil {
		return
	}
	k := &keyOpMetrics[o]
	m.sink.Add(&k.count, 1)
	if bytes > 0 {
		m.sink.Add(&k.bytes, int64(bytes))
	}
	if o == opGet || o == opExists || o == opScan {
		m.sink.Observe(&k.time, time.Since(m.start))
	}
}
