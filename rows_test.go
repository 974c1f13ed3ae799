package greenroom_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

type ids struct {
	ID int64
}

type task struct {
	ids
	Text  string  `json:"text,omitempty"`
	Note  *string `db:"remark" json:"note"`
	Note2 string  `db:"note"`
	Done  bool    `json:"-"`
	inner int
	*far
}

type far struct{ Lost int }

// TestSelect: rows are read by the names of their columns, or as single values.
func TestSelect(t *testing.T) {
	b := openBank(t, memkv.New(), 1)
	defer b.close()
	remark := "later"
	must(t, b.accounts[0].Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("create table task(id integer primary key, text text, remark text, note text, done integer)"); err != nil {
			return err
		}
		if _, err := tx.Exec("insert into task values (1, 'tea', null, 'n', 1), (2, 'milk', 'later', '', 0)"); err != nil {
			return err
		}
		all, err := greenroom.Select[task](tx, "select * from task where id < ? order by id", 9)
		want := []task{{ids: ids{1}, Text: "tea", Note2: "n", Done: true, inner: 0}, {ids: ids{2}, Text: "milk", Note: &remark}}
		if err != nil || !reflect.DeepEqual(all, want) {
			t.Errorf("got %+v, %v", all, err)
		}
		none, err := greenroom.Select[task](tx, "select * from task where id > 9")
		if err != nil || none == nil || len(none) > 0 {
			t.Errorf("no rows: got %v, %v", none, err)
		}
		_, err = greenroom.SelectOne[task](tx, "select * from task where id > 9")
		wantErr(t, "no row", err, sql.ErrNoRows)
		texts, err := greenroom.Select[string](tx, "select text from task order by text")
		if err != nil || !reflect.DeepEqual(texts, []string{"milk", "tea"}) {
			t.Errorf("got %v, %v", texts, err)
		}
		notes, err := greenroom.Select[sql.Null[string]](tx, "select remark from task order by id")
		if err != nil || len(notes) != 2 || notes[0].Valid || notes[1].V != "later" {
			t.Errorf("got %v, %v", notes, err)
		}
		// The second row would be an error.
		text, err := greenroom.SelectOne[string](tx, "select case when id = 1 then text else abs(-9223372036854775808) end from task order by id")
		if err != nil || text != "tea" {
			t.Errorf("got %q, %v", text, err)
		}
		_, err = greenroom.SelectOne[string](tx, "select remark from task where id = 1")
		if err == nil {
			t.Error("NULL was read as a string")
		}
		for _, query := range []string{"select 1 as unknown", "select 1 as inner", "select 1 as Lost", "select 1 as note2", "select 1 as id, 2 as 'nothing'"} {
			_, err := greenroom.Select[task](tx, query)
			wantErr(t, query, err, kv.ErrInvalid)
		}
		_, err = greenroom.Select[int](tx, "select 1, 2")
		wantErr(t, "two columns", err, kv.ErrInvalid)
		if _, err := greenroom.Select[int](tx, "select"); err == nil || errors.Is(err, kv.ErrInvalid) {
			t.Errorf("a query that isn't one: %v", err)
		}
		return nil
	}))
	must(t, b.store.View(ctx, b.accounts[0].Name(), func(v *greenroom.View) error {
		n, err := greenroom.SelectOne[int](v, "select count(*) from task")
		if n != 2 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		return err
	}))
}

// Rows as structs, and single values.
func ExampleSelect() {
	store, err := greenroom.New(ctx, memkv.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	list, err := store.Actor(ctx, "list", nil)
	if err != nil {
		log.Fatal(err)
	}
	type Task struct {
		ID   int64
		Text string
		Done bool
	}
	err = list.Update(ctx, func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("create table task(id integer primary key, text text, done integer); insert into task(text, done) values ('tea', 1), ('milk', 0)"); err != nil {
			return err
		}
		open, err := greenroom.Select[Task](tx, "select id, text, done from task where not done")
		if err != nil {
			return err
		}
		n, err := greenroom.SelectOne[int](tx, "select count(*) from task")
		fmt.Printf("%+v of %d\n", open, n)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(list.Close(), store.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: [{ID:2 Text:milk Done:false}] of 2
}
