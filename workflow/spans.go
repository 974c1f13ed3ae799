package workflow

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The names of spans. A run's has the actor and the state in which it ends; an attempt's
// is a child of it, and has the step.
const (
	spanRun  = "workflow.run"
	spanStep = "workflow.step"
)

// The attributes of spans.
const (
	attrActor   = attribute.Key("workflow.actor")
	attrState   = attribute.Key("workflow.state")
	attrLive    = attribute.Key("workflow.live")
	attrPath    = attribute.Key("workflow.step.path")
	attrID      = attribute.Key("workflow.step.id")
	attrAttempt = attribute.Key("workflow.step.attempt")
)

// tracer is nil if spans aren't wanted.
func (o *Options) tracer() trace.Tracer {
	if o == nil || o.Tracing == nil {
		return nil
	}
	return o.Tracing.Tracer("github.com/greenroomdb/greenroom/workflow")
}

// traceRun begins the span of a run, which the function that it returns ends.
func (w *Workflow) traceRun(ctx context.Context, live bool) (context.Context, func(error)) {
	if w.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := w.tracer.Start(ctx, spanRun, trace.WithAttributes(attrActor.String(w.actor.ID().String()), attrLive.Bool(live)))
	return ctx, func(err error) {
		span.SetAttributes(attrState.String(w.h.State().String()))
		endSpan(span, err)
	}
}

// traceStep begins the span of an attempt.
func (w *Workflow) traceStep(ctx context.Context, s StepInfo) (context.Context, func(error)) {
	if w.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := w.tracer.Start(ctx, spanStep, trace.WithAttributes(
		attrPath.String(s.Path), attrID.String(s.ID), attrAttempt.Int64(int64(s.Attempt))))
	return ctx, func(err error) { endSpan(span, err) }
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
