package greenroom

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// Names of spans, events and attributes, which other runtimes of actors, and tools, know.
// Those of exceptions and of messaging are OpenTelemetry's:
// https://opentelemetry.io/docs/specs/semconv/.
const (
	spanUpdate = "actor.update"

	eventEnqueue         = "queue.message.send"
	eventQueueReceive    = "queue.message.receive"
	eventScheduleCreated = "schedule.created"

	exception     = "exception"
	exceptionType = "exception.type"
	exceptionText = "exception.message"

	keyActorID              = "rivet.actor.id"
	keyActorName            = "rivet.actor.name"
	keyQueueName            = "rivet.queue.name"
	keyQueueMessageID       = "rivet.queue.message_id"    // integer
	keyQueueCreated         = "rivet.queue.created_at_ms" // Unix milliseconds
	keyQueueLatency         = "rivet.queue.latency_ms"    // milliseconds
	keyScheduleEventID      = "rivet.schedule.event_id"
	keyScheduleAction       = "rivet.schedule.action"
	keyScheduleTimestamp    = "rivet.schedule.timestamp_ms" // Unix milliseconds
	keyMessagingSystem      = "messaging.system"
	keyMessagingDestination = "messaging.destination.name"
	keyMessagingMessageID   = "messaging.message.id"
	keyMessagingOperation   = "messaging.operation.name"
	keyMessagingType        = "messaging.operation.type"
	messagingSystem         = "greenroom"
)

// spanOf begins the span of an Update, nil if none are recorded.
func spanOf(ctx context.Context, a *Actor) (*traces.Span, error) {
	if a.opts.Traces == nil {
		return nil, nil
	}
	t, err := a.Traces(ctx)
	if err != nil {
		return nil, err
	}
	return t.Begin(spanUpdate, &traces.StartOptions{Kind: traces.KindInternal, Parent: traces.FromContext(ctx), Attributes: []traces.Attr{
		traces.String(keyActorID, a.actor.ID().String()),
		traces.String(keyActorName, a.Name()),
	}}), nil
}

// endSpan ends a span, which may be nil, and says what went wrong unless err is nil.
func endSpan(s *traces.Span, err error) {
	switch {
	case s == nil:
	case err == nil:
		s.End()
	default:
		s.Event(exception, traces.String(exceptionType, fmt.Sprintf("%T", err)), traces.String(exceptionText, err.Error()))
		s.EndWith(time.Time{}, &traces.Status{Code: traces.StatusError, Message: err.Error()})
	}
}

// spansEvery is how often spans land with transactions of an actor at most. A chunk in each commit costs a busy actor a tenth of its time.
const spansEvery = 100 * time.Millisecond

// flushSpans lets what was recorded so far land with the transaction, if that turns out to
// write anything, and has room for it: no transaction fails for its spans, which are written
// later otherwise. So are those of a transaction that follows another one at once.
func flushSpans(tx *Tx) error {
	now := time.Now()
	if tx.actor.opts.Traces == nil || now.Sub(tx.actor.flushed) < spansEvery {
		return nil
	}
	t, err := tx.actor.Traces(tx.ctx)
	if err != nil {
		return err
	}
	tx.batch.Late(func(b *batch.Batch) error {
		if b.Empty() || !hasRoom(tx.actor.actor, t, b) {
			return nil
		}
		if err := t.In(b).Flush(tx.ctx); err != nil {
			tx.actor.log.Warn("greenroom: spans are written later", slog.Any("error", err))
		}
		b.OnCommit(func() { tx.actor.flushed = now })
		return nil
	})
	return nil
}

// largestTx bounds what a transaction that is one commit of the engine makes an actor grow,
// in bytes.
const largestTx = 64 << 20

// hasRoom reports whether the spans that wait fit into the actor, and into the commit of b,
// beside b.
func hasRoom(a *actorstore.Actor, t *traces.Traces, b *batch.Batch) bool {
	l := a.Limits()
	spans := int64(t.Stats().PendingBytes + 2*l.ValueSize) // what waits, what isn't a chunk yet, and the index
	if l.AtomicBatches == 0 && a.Used()+spans+largestTx <= l.Storage {
		return true
	}
	size, n := int64(b.Payload()), b.Len()+b.Final().Len()
	fits := l.AtomicBatches == 0 || spans+size <= int64(l.Payload) && n <= l.Entries/2
	return fits && a.Used()+spans+size <= l.Storage
}

// received records that a message was received.
func received(s *traces.Span, m *queue.Message, now time.Time) {
	if s == nil {
		return
	}
	s.Event(eventQueueReceive,
		traces.String(keyQueueName, m.Name),
		traces.Int(keyQueueMessageID, int64(m.ID)),
		traces.Int(keyQueueCreated, m.Created.UnixMilli()),
		traces.Int(keyQueueLatency, max(now.Sub(m.Created).Milliseconds(), 0)),
		traces.String(keyMessagingSystem, messagingSystem),
		traces.String(keyMessagingDestination, m.Name),
		traces.String(keyMessagingMessageID, m.ID.String()),
		traces.String(keyMessagingOperation, "receive"),
		traces.String(keyMessagingType, "receive"))
}

// enqueued records that a message was put into the queue.
func enqueued(s *traces.Span, name string, id queue.ID) {
	if s == nil {
		return
	}
	s.Event(eventEnqueue,
		traces.String(keyQueueName, name),
		traces.Int(keyQueueMessageID, int64(id)),
		traces.String(keyMessagingSystem, messagingSystem),
		traces.String(keyMessagingDestination, name),
		traces.String(keyMessagingOperation, "send"),
		traces.String(keyMessagingType, "send"))
}

// scheduled records that an event was scheduled.
func scheduled(s *traces.Span, id string, job persist.Job) {
	if s == nil {
		return
	}
	attrs := []traces.Attr{
		traces.String(keyScheduleEventID, id),
		traces.String(keyScheduleAction, job.Action),
	}
	if !job.At.IsZero() { // else a rule says when
		attrs = append(attrs, traces.Int(keyScheduleTimestamp, job.At.UnixMilli()))
	}
	s.Event(eventScheduleCreated, attrs...)
}
