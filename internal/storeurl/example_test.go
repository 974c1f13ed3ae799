package storeurl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
)

func ExampleParse() {
	for _, url := range []string{"data", "pebble:data", "mem:", "peble:data"} {
		kind, address, err := storeurl.Parse(url)
		fmt.Printf("%q %q %t\n", kind, address, errors.Is(err, storeurl.ErrURL))
	}
	// Output:
	// "pebble" "data" false
	// "pebble" "data" false
	// "mem" "" false
	// "" "" true
}

func ExampleOpen() {
	ctx := context.Background()
	_, err := storeurl.Open(ctx, "pebble:/nowhere/at/all", greenroom.Options{MustExist: true})
	fmt.Println(errors.Is(err, kv.ErrNoStore)) // nothing is created unless asked for

	store, err := storeurl.Open(ctx, "mem:", greenroom.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close() // the engine with it
	lobby, err := store.Actor(ctx, "lobby", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer lobby.Close()
	err = lobby.Update(ctx, func(tx *greenroom.Tx) error { return tx.Put([]byte("greeting"), []byte("good evening")) })
	if err != nil {
		log.Fatal(err)
	}
	err = store.View(ctx, "id:"+lobby.Lower().ID().String(), func(v *greenroom.View) error {
		value, err := v.Get([]byte("greeting"))
		fmt.Printf("%s\n", value)
		return err
	})
	fmt.Println(err)
	// Output:
	// true
	// good evening
	// <nil>
}
