// Package rooms is query code of the form that sqlc (https://sqlc.dev) generates from
// query.sql and the schema in ../migrations: written by hand after it, so that the
// generator isn't needed, and checked in as such code usually is.
package rooms

import (
	"context"
	"database/sql"
)

// DBTX is what the queries run on: *sql.DB and *sql.Tx, and so *vfs.DB and *vfs.Tx.
type DBTX interface {
	ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...interface{}) *sql.Row
}

// New returns the queries on db.
func New(db DBTX) *Queries { return &Queries{db: db} }

// Queries are the queries of query.sql.
type Queries struct{ db DBTX }

// WithTx returns the queries in a transaction.
func (q *Queries) WithTx(tx *sql.Tx) *Queries { return &Queries{db: tx} }

// A Message is a row of the table message.
type Message struct {
	ID   int64
	Room string
	Body string
	Seen int64
}

const addMessage = `-- name: AddMessage :one
INSERT INTO message (room, body) VALUES (?, ?) RETURNING id, room, body, seen
`

// AddMessageParams are the parameters of AddMessage.
type AddMessageParams struct {
	Room string
	Body string
}

// AddMessage stores a message and returns it as the statement saw it.
func (q *Queries) AddMessage(ctx context.Context, arg AddMessageParams) (Message, error) {
	row := q.db.QueryRowContext(ctx, addMessage, arg.Room, arg.Body)
	var i Message
	err := row.Scan(&i.ID, &i.Room, &i.Body, &i.Seen)
	return i, err
}

const listMessages = `-- name: ListMessages :many
SELECT id, room, body, seen FROM message WHERE room = ? ORDER BY id
`

// ListMessages returns the messages of a room, oldest first.
func (q *Queries) ListMessages(ctx context.Context, room string) ([]Message, error) {
	rows, err := q.db.QueryContext(ctx, listMessages, room)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var items []Message
	for rows.Next() {
		var i Message
		if err := rows.Scan(&i.ID, &i.Room, &i.Body, &i.Seen); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return items, nil
}

const markSeen = `-- name: MarkSeen :execrows
UPDATE message SET seen = 1 WHERE room = ? AND id <= ?
`

// MarkSeenParams are the parameters of MarkSeen.
type MarkSeenParams struct {
	Room string
	ID   int64
}

// MarkSeen marks the messages of a room up to one, and returns how many those are.
func (q *Queries) MarkSeen(ctx context.Context, arg MarkSeenParams) (int64, error) {
	result, err := q.db.ExecContext(ctx, markSeen, arg.Room, arg.ID)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
