package host

import (
	"context"
	"fmt"
	"log/slog"
)

// dontWake is the end of an actor that could not be woken, or doesn't want to be.
func (l *life) dontWake(err error) {
	l.failure = err
	l.cancel()
	close(l.over)
	l.sources.Wait()
	switch {
	case l.destroy && l.actor.Err() == nil:
		l.quiesce()
		l.gate.wait()
		if err := l.remove(); err != nil {
			l.failure = err
		}
	case l.creation.undo():
		l.stillborn = true
		l.shut(true)
	default:
		l.shut(true)
	}
	l.host.forget(l)
	close(l.woken)
	close(l.left)
}

// remove drops the actor, and tells those that asked for it.
func (l *life) remove() error {
	err := l.door.Drop(context.WithoutCancel(l.ctx))
	if err != nil {
		err = fmt.Errorf("host: destroy %s: %w", l.name, err)
		l.log.Error("host: destroy", slog.Any("error", err))
	} else {
		l.host.alarms.Forget(l.name)
		l.host.away.drop(l.name, "the actor is gone")
		l.host.meter.Count(metricDestroyed, 1)
	}
	l.gate.destroyed(err)
	l.shut(false)
	return err
}
