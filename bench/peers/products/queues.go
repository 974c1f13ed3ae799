package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/mattn/go-sqlite3"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"maragu.dev/goqite"
)

// bodyLength is how long a message is.
const bodyLength = 100

// openGoqite opens a queue in a SQLite file, in WAL mode and with synchronous=FULL. An operation is to send, receive and delete a message. The place has the
// file, and that of goqite's schema, with a comma between them.
func openGoqite(ctx context.Context, place string, _ int) (operation, func() error, error) {
	file, schema, _ := strings.Cut(place, ",")
	tables, err := os.ReadFile(schema)
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite3", file+"?_journal=WAL&_synchronous=FULL&_timeout=10000&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // several only wait for each other's locks
	if _, err := db.ExecContext(ctx, string(tables)); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	q := goqite.New(goqite.NewOpts{DB: db, Name: "jobs", Timeout: 30 * time.Second})
	body := make([]byte, bodyLength)
	return func(ctx context.Context, _ int) error {
		if err := q.Send(ctx, goqite.Message{Body: body}); err != nil {
			return err
		}
		m, err := q.Receive(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			return errors.New("no message was received")
		}
		return q.Delete(ctx, m.ID)
	}, db.Close, nil
}

// A job is what River works on: that of a caller.
type job struct {
	Body   string `json:"body"`
	Caller int    `json:"caller"`
	Number int64  `json:"number"`
}

func (job) Kind() string { return "job" }

// A jobs worker tells the callers that their job has come.
type jobs struct {
	river.WorkerDefaults[job]
	came []chan int64
}

func (w *jobs) Work(_ context.Context, j *river.Job[job]) error {
	w.came[j.Args.Caller] <- j.Args.Number
	return nil
}

// openRiver opens a queue in PostgreSQL. An operation is to insert a job until a worker is called; that it is completed is written later, in batches. The
// worker asks for jobs as often as it may, which is what its makers say for low latency.
func openRiver(ctx context.Context, url string, callers int) (operation, func() error, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, nil, err
	}
	w := &jobs{came: make([]chan int64, callers)}
	for i := range w.came {
		w.came[i] = make(chan int64, 1)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient[pgx.Tx](driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}, Workers: workers,
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, nil, err
	}
	body := strings.Repeat("x", bodyLength)
	var last atomic.Int64
	do := func(ctx context.Context, i int) error {
		n := last.Add(1)
		if _, err := client.Insert(ctx, job{body, i, n}, nil); err != nil {
			return err
		}
		if got := <-w.came[i]; got != n {
			return fmt.Errorf("job %d came in place of %d", got, n)
		}
		return nil
	}
	return do, func() error {
		err := client.Stop(ctx)
		pool.Close()
		return err
	}, nil
}
