package ecosystem

import (
	"context"
	"embed"
	"io/fs"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migrate brings a database to the newest schema, and returns how many steps that took.
func migrate(ctx context.Context, db *vfs.DB) (int, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return 0, err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, files)
	if err != nil {
		return 0, err
	}
	// Not provider.Close: that would close the pool.
	steps, err := provider.Up(ctx)
	return len(steps), err
}

// openMemory opens an actor's database in memory, and returns what closes it.
func openMemory(ctx context.Context, opts *vfs.Options) (*actorstore.Actor, *vfs.DB, func() error, error) {
	store, err := actorstore.Open(ctx, memkv.New(), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	actor, err := store.Named(ctx, "lobby", nil)
	if err != nil {
		return nil, nil, nil, err
	}
	db, err := vfs.Open(ctx, actor, opts)
	if err != nil {
		return nil, nil, nil, err
	}
	return actor, db, func() error {
		if err := db.Close(); err != nil {
			return err
		}
		return store.Close()
	}, nil
}

// open is openMemory for a test.
func open(t *testing.T, opts *vfs.Options) (*actorstore.Actor, *vfs.DB) {
	t.Helper()
	actor, db, closeAll, err := openMemory(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeAll(); err != nil {
			t.Error(err)
		}
	})
	return actor, db
}

func exec(t *testing.T, db *vfs.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// rows returns the single column that query yields.
func rows(t *testing.T, db *vfs.DB, query string, args ...any) []string {
	t.Helper()
	r, err := db.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	got := []string{}
	for r.Next() {
		var s string
		if err := r.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s)
	}
	if err := r.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got
}
