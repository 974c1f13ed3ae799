package greenroom

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// A program of RivetKit 2.3 keeps the state, the schedule, the connections, the messages, the user keys and the workflow of its actor in tables of the actor's database, and no longer under keys.
// The table _rivet_meta says when what lay under keys was moved there. A column holds what the value of a key did; a connection has a column for each of its parts, in CBOR.
//
// The program alone writes the tables: it has them in memory.

// ErrProgram: the actor's program keeps this in tables of its database, as those of RivetKit 2.3 do, and alone writes it.
var ErrProgram = errkind.New("greenroom: the actor's program alone writes this, in its database", errkind.ErrUnsupported)

// ofProgram returns ErrProgram of such an actor. It costs other actors nothing.
func ofProgram(ctx context.Context, a *actorstore.Actor) error {
	has, err := hasPages(ctx, a)
	if has {
		err = ErrProgram
	}
	return err
}

// hasPages says whether a program of RivetKit 2.3 has committed pages of the actor's database.
func hasPages(ctx context.Context, r actorstore.Reader) (bool, error) {
	if r.Layout() != actorstore.LayoutRivetKit {
		return false, nil
	}
	_, err := r.Get(ctx, actorstore.PagesHeadKey(), nil)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// tables are those of such an actor, for reading.
type tables struct {
	ctx context.Context
	db  *sql.DB
}

// tables returns those of the actor, nil if its parts lie under keys.
func (v *View) tables() (*tables, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if v.moved == nil {
		moved, err := v.hasTables()
		if err != nil {
			return nil, fmt.Errorf("greenroom: look for the tables of the actor's program: %w", err)
		}
		v.moved = &moved
	}
	if !*v.moved {
		return nil, nil
	}
	return &tables{v.ctx, v.db.DB}, nil
}

// hasTables says whether the actor's parts were moved to tables.
func (v *View) hasTables() (bool, error) {
	if has, err := hasPages(v.ctx, v.at); !has {
		return false, err
	}
	main := v.at.Layout().AppendFileMeta(nil, actorstore.FileMain)
	if _, err := v.at.Get(v.ctx, main, nil); err != nil { // a program may have removed all pages
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return false, err
	}
	n := 0
	err := v.QueryRow("select count(*) from sqlite_schema where name = '_rivet_meta'").Scan(&n)
	if err == nil && n > 0 {
		err = v.QueryRow("select count(*) from _rivet_meta where key = 'kv_import_state' and value = cast('done' as blob)").Scan(&n)
	}
	return n > 0, err
}

// rows calls fn for each row of a query.
func (t *tables) rows(fn func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := t.db.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// record returns the state, the input and the schedule.
func (t *tables) record() (*persist.Contents, error) {
	c := &persist.Contents{State: []byte{0xf7}} // undefined
	if err := t.rows(func(r *sql.Rows) error { return r.Scan(&c.Initialized, &c.Input) }, "select has_initialized, input from _rivet_actor"); err != nil {
		return nil, err
	}
	if err := t.rows(func(r *sql.Rows) error { return r.Scan(&c.State) }, "select state from _rivet_actor_state"); err != nil {
		return nil, err
	}
	return c, t.rows(func(r *sql.Rows) error {
		var at int64
		var cron, zone sql.NullString
		e := persist.Event{}
		err := r.Scan(&e.ID, &at, &e.Action, &e.Args, &cron, &zone)
		e.At, e.Cron, e.Zone = time.UnixMilli(at).UTC(), cron.String, zone.String
		c.Events = append(c.Events, e)
		return err
	}, "select event_id, trigger_at, action, args, cron_expression, timezone from _rivet_schedule_events order by trigger_at, event_id")
}

// messages yields those of the queue that opts select.
func (t *tables) messages(opts *queue.ListOptions) iter.Seq2[queue.Stored, error] {
	o := queue.ListOptions{}
	if opts != nil {
		o = *opts
	}
	return func(yield func(queue.Stored, error) bool) {
		n := 0
		err := t.rows(func(r *sql.Rows) error {
			var created int64
			m := queue.Stored{State: "ready"}
			if err := r.Scan(&m.ID, &m.Name, &m.Body, &created); err != nil {
				return err
			}
			m.Created, m.Size = time.UnixMilli(created), len(m.Body)
			if m.ID <= o.After || len(o.Names) > 0 && !slices.Contains(o.Names, m.Name) {
				return nil
			}
			if n++; !yield(m, nil) || n == o.Limit {
				return errEnough
			}
			return nil
		}, "select id, name, body, created_at from _rivet_queue order by id")
		if err != nil && !errors.Is(err, errEnough) {
			yield(queue.Stored{}, err)
		}
	}
}

// errEnough ends a query.
var errEnough = errors.New("greenroom: enough")

// connections yields those that are stored.
func (t *tables) connections() iter.Seq2[conn.Stored, error] {
	return func(yield func(conn.Stored, error) bool) {
		err := t.rows(func(r *sql.Rows) error {
			var gateway, request, headers, subscriptions []byte
			c := &conn.Record{}
			if err := r.Scan(&c.ID, &c.Parameters, &gateway, &request, &c.Path, &headers, &c.State, &c.Server, &c.Client, &subscriptions); err != nil {
				return err
			}
			copy(c.Gateway[:], gateway)
			copy(c.Request[:], request)
			s := conn.Stored{ID: c.ID, Record: c, Size: len(c.Parameters) + len(c.State) + len(headers) + len(subscriptions)}
			named := map[string]string{}
			if err := errors.Join(cbor.Unmarshal(headers, &named), cbor.Unmarshal(subscriptions, &c.Subscriptions)); err != nil {
				s.Record, s.Err = nil, fmt.Errorf("%w: %w", actorstore.ErrCorrupt, err)
			}
			for name, value := range named {
				c.Headers = append(c.Headers, conn.Header{Name: name, Value: value})
			}
			if !yield(s, nil) {
				return errEnough
			}
			return nil
		}, `select c.conn_id, c.parameters, c.gateway_id, c.request_id, c.request_path, c.request_headers, s.state,
			coalesce(s.server_message_index, 0), coalesce(s.client_message_index, 0), coalesce(s.subscriptions, x'80')
			from _rivet_conns c left join _rivet_conn_state s using (conn_id) order by c.conn_id`)
		if err != nil && !errors.Is(err, errEnough) {
			yield(conn.Stored{}, err)
		}
	}
}

// workflow returns the history of the actor's workflow, whose rows have the keys and the values of before.
func (t *tables) workflow() (*workflow.Snapshot, []workflow.Damage, error) {
	return workflow.ReadEntries(actorstore.LayoutRivetKit, t.entries("select key, value from _rivet_wf_kv order by key"))
}

// entries yields rows of a key and a value.
func (t *tables) entries(query string, args ...any) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := t.rows(func(r *sql.Rows) error {
			e := Entry{}
			if err := r.Scan(&e.Key, &e.Value); err != nil {
				return err
			}
			if e.Size = len(e.Value); !yield(e, nil) {
				return errEnough
			}
			return nil
		}, query, args...)
		if err != nil && !errors.Is(err, errEnough) {
			yield(Entry{}, err)
		}
	}
}

// get returns the value of a user key.
func (t *tables) get(key []byte) (value []byte, err error) {
	err = t.db.QueryRowContext(t.ctx, "select value from _rivet_user_kv where key = ?", actorstore.UserKey(key)).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return value, err
}

// list yields the user keys that opts select.
func (t *tables) list(opts ListOptions) iter.Seq2[Entry, error] {
	all := actorstore.UserKey(nil)
	start, end := actorstore.UserKey(opts.Start), kv.PrefixEnd(all)
	if opts.End != nil {
		end = actorstore.UserKey(opts.End)
	}
	if prefix := actorstore.UserKey(opts.Prefix); len(opts.Prefix) > 0 {
		start, end = slices.MaxFunc([][]byte{start, prefix}, bytes.Compare), slices.MinFunc([][]byte{end, kv.PrefixEnd(prefix)}, bytes.Compare)
	}
	query := "select key, value from _rivet_user_kv where key >= ? and key < ? order by key"
	if opts.Reverse {
		query += " desc"
	}
	if opts.Limit > 0 {
		query += fmt.Sprint(" limit ", opts.Limit)
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range t.entries(query, start, end) {
			if err == nil {
				e.Key = e.Key[len(all):]
			}
			if opts.KeysOnly {
				e.Value = nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
