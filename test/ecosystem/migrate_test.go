package ecosystem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/pressly/goose/v3"

	"github.com/greenroomdb/greenroom/test/ecosystem/rooms"
)

// A migration library works on the pool that vfs.DB holds.
func Example_migrations() {
	ctx := context.Background()
	_, db, closeAll, err := openMemory(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer closeAll()

	for range 2 { // the second time there is nothing to do
		steps, err := migrate(ctx, db)
		if err != nil {
			panic(err)
		}
		fmt.Println(steps, "migrations")
	}
	message, err := rooms.New(db).AddMessage(ctx, rooms.AddMessageParams{Room: "red", Body: "hello"})
	if err != nil {
		panic(err)
	}
	fmt.Println(message.Room, message.Body)
	// Output:
	// 2 migrations
	// 0 migrations
	// red hello
}

// Down undoes what Up did, and a step that fails leaves the schema of the one before.
func TestMigrations(t *testing.T) {
	_, db := open(t, nil)
	if n, err := migrate(t.Context(), db); n != 2 || err != nil {
		t.Fatalf("%d migrations, %v", n, err)
	}
	schema := "select name from sqlite_schema where name like 'message%' order by name"
	if got, want := rows(t, db, schema), []string{"message", "message_room", "message_trimmed"}; !slices.Equal(got, want) {
		t.Errorf("schema %v, want %v", got, want)
	}
	bad := fstest.MapFS{"00003_bad.sql": {Data: []byte("-- +goose Up\ncreate table half(a);\ninsert into nothing values (1);\n")}}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db.DB, bad)
	if err != nil {
		t.Fatal(err)
	}
	var partial *goose.PartialError
	if _, err := provider.Up(t.Context()); !errors.As(err, &partial) {
		t.Errorf("a migration that fails: %v", err)
	}
	if got := rows(t, db, "select name from sqlite_schema where name = 'half'"); len(got) > 0 {
		t.Error("a half of it is there")
	}
	if got := rows(t, db, "pragma integrity_check"); !slices.Equal(got, []string{"ok"}) {
		t.Error(got)
	}
}
