// Package rivettables reads what an actor of RivetKit 2.3 has: its program keeps the state, the schedule, the connections, the messages, the user keys and the workflow in tables of the actor's
// database, and no longer under keys. The table _rivet_meta says when what lay under keys was moved there. A column holds what the value of a key did; a connection has a column for each of its
// parts, in CBOR.
//
// The program alone writes the tables: it has them in memory.
package rivettables

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
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// HasPages says whether a program of RivetKit 2.3 has committed pages of the database of the actor that r shows. It costs other actors nothing.
func HasPages(ctx context.Context, r actorstore.Reader) (bool, error) {
	if r.Layout() != actorstore.LayoutRivetKit {
		return false, nil
	}
	_, err := r.Get(ctx, actorstore.PagesHeadKey(), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Tables are those of an actor, for reading, until its database is closed.
type Tables struct {
	ctx context.Context
	db  *sql.DB
}

// Of returns the tables of the actor that r shows, nil if its parts lie under keys. open returns the database, as r shows it; it is called once, if there may be tables.
//
// Errors are those of open, and of reading.
func Of(ctx context.Context, r actorstore.Reader, open func() (*sql.DB, error)) (*Tables, error) {
	has, err := HasPages(ctx, r)
	if !has {
		return nil, err
	}
	main := r.Layout().AppendFileMeta(nil, actorstore.FileMain)
	if _, err := r.Get(ctx, main, nil); err != nil { // a program may have removed all pages
		if errors.Is(err, actorstore.ErrNotFound) {
			err = nil
		}
		return nil, err
	}
	db, err := open()
	if err != nil {
		return nil, err
	}
	meta, other := 0, sql.NullString{}
	if err := db.QueryRowContext(ctx, kinds).Scan(&meta, &other); err != nil || meta == 0 {
		return nil, err
	}
	if other.Valid {
		return nil, fmt.Errorf("rivettables: %w: %s isn't a table of stored columns, as RivetKit makes it", actorstore.ErrCorrupt, other.String)
	}
	done := 0
	err = db.QueryRowContext(ctx, "select 1 from _rivet_meta where key = 'kv_import_state' and value = cast('done' as blob) limit 1").Scan(&done)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Tables{ctx, db}, nil
}

// kinds asks whether there is _rivet_meta, and for one of the names below that a program has given to something else: to read a view, a virtual table, or a column that is computed
// may take any time and memory.
const kinds = `select count(*) filter (where name = '_rivet_meta' collate nocase), min(name) filter (where type <> 'table' or exists (select 1 from pragma_table_xinfo(l.name) where hidden <> 0))
	from pragma_table_list l where schema = 'main' and lower(name) in ('_rivet_meta', '_rivet_actor', '_rivet_actor_state', '_rivet_schedule_events', '_rivet_queue', '_rivet_conns',
		'_rivet_conn_state', '_rivet_wf_kv', '_rivet_user_kv')`

// rows calls fn for each row of a query.
func (t *Tables) rows(fn func(*sql.Rows) error, query string, args ...any) (err error) {
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

// Record returns the state, the input and the schedule.
func (t *Tables) Record() (*persist.Contents, error) {
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

// Messages yields those of the queue that opts select.
func (t *Tables) Messages(opts *queue.ListOptions) iter.Seq2[queue.Stored, error] {
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
var errEnough = errors.New("rivettables: enough")

// Connections yields those that are stored.
func (t *Tables) Connections() iter.Seq2[conn.Stored, error] {
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

// Workflow returns the history of the actor's workflow, whose rows have the keys and the values of before.
func (t *Tables) Workflow() (*workflow.Snapshot, []workflow.Damage, error) {
	return workflow.ReadEntries(actorstore.LayoutRivetKit, t.entries("select key, value from _rivet_wf_kv order by key"))
}

// mostFound is how many bytes a value has at most that is read to find an actor. Of a longer one, which can only be the input, it matters that it is there.
const mostFound = 1 << 20

// Found returns by which state of its workflow the actor is found: see workflow.Found.
func (t *Tables) Found() (state string, stuck bool, err error) {
	state, stuck, _, err = workflow.FoundIn(actorstore.LayoutRivetKit, func(key []byte) iter.Seq2[actorstore.Entry, error] {
		return t.entries("select key, case when octet_length(value) <= ? then value else x'00' end from _rivet_wf_kv where key = ? limit 1", mostFound, key)
	})
	return state, stuck, err
}

// entries yields rows of a key and a value.
func (t *Tables) entries(query string, args ...any) iter.Seq2[actorstore.Entry, error] {
	return func(yield func(actorstore.Entry, error) bool) {
		err := t.rows(func(r *sql.Rows) error {
			e := actorstore.Entry{}
			if err := r.Scan(&e.Key, &e.Value); err != nil {
				return err
			}
			if e.Size = len(e.Value); !yield(e, nil) {
				return errEnough
			}
			return nil
		}, query, args...)
		if err != nil && !errors.Is(err, errEnough) {
			yield(actorstore.Entry{}, err)
		}
	}
}

// Get returns the value of a user key.
func (t *Tables) Get(key []byte) (value []byte, err error) {
	err = t.db.QueryRowContext(t.ctx, "select value from _rivet_user_kv where key = ?", actorstore.UserKey(key)).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, actorstore.ErrNotFound
	}
	return value, err
}

// List yields the user keys that opts select.
func (t *Tables) List(opts actorstore.ListOptions) iter.Seq2[actorstore.Entry, error] {
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
	return func(yield func(actorstore.Entry, error) bool) {
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
