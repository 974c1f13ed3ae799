package host

import (
	"log/slog"
)

// A schema is that of an actor's database, as Type.Migrations leave it.
type schema struct{ *life }

// bringUp brings the database to the latest version, in a turn of its own.
func (l schema) bringUp() error {
	if l.destroy || l.actor.Attributes().Schema == l.kind.Migrations.Latest() || len(l.kind.Migrations) == 0 {
		return nil
	}
	return l.course.runFirst(spanMigrate, l.run)
}

// run brings it there in a turn.
func (l schema) run(c *Context) error {
	all := l.kind.Migrations
	if len(all) == 0 {
		return nil
	}
	if err := l.kind.noteVersioned(l.ctx, l.host.engine); err != nil {
		return err
	}
	from, err := all.Run(c.Tx)
	if err == nil && from != all.Latest() {
		c.AfterCommit(func() { l.log.Info("host: schema", slog.Uint64("from", from), slog.Uint64("to", all.Latest())) })
	}
	return err
}
